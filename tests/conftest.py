"""Fixtures that every suite shares. Each process started here ends with the tests, even if they are killed."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator

import pytest

from tupletree._daemon.zookeeper import EmbeddedZooKeeper
from tupletree._devcluster.guard import Guard


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper for the tests of one module, which may kill and restart it but leave it running."""
    with tempfile.TemporaryDirectory(prefix="tupletree-zookeeper-") as directory:
        guard = Guard(directory, remove=True)
        try:
            with EmbeddedZooKeeper(directory, durable=False) as server:
                yield server
        finally:
            guard.close()


@pytest.fixture
def zookeeper_root() -> str:
    """A path that no other test uses, to keep tests on one ZooKeeper apart."""
    return f"/test-{uuid.uuid4().hex[:12]}"
