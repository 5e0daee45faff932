"""An acker with namespaces, and clients that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trees_harness import NAMESPACES, TreesAcker

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.trees import TreeClient


@pytest.fixture
def acker(zookeeper: EmbeddedZooKeeper, zookeeper_root: str, tmp_path: Path) -> Iterator[TreesAcker]:
    with TreesAcker(tmp_path / "acker", zookeeper, zookeeper_root, NAMESPACES) as running:
        yield running


@pytest.fixture
def client(acker: TreesAcker) -> Iterator[Callable[..., TreeClient]]:
    """Connect a client of the acker."""
    opened: list[TreeClient] = []

    def connect(namespace: str = "orders", **options: Any) -> TreeClient:
        opened.append(TreeClient(acker.address, namespace=namespace, **options))
        opened[-1].connect()
        return opened[-1]

    yield connect
    for one in opened:
        one.close()
