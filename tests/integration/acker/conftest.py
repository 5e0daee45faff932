"""Ackers and workers that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acker_harness import AckerProcess, HandWorker

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper

StartAcker = Callable[..., AckerProcess]


@pytest.fixture
def start_acker(zookeeper: EmbeddedZooKeeper, zookeeper_root: str, tmp_path: Path) -> Iterator[StartAcker]:
    """Start an acker with overrides; all of them end with the test."""
    running: list[AckerProcess] = []

    def start(*overrides: str) -> AckerProcess:
        running.append(AckerProcess(tmp_path / f"acker-{len(running)}", zookeeper, zookeeper_root, overrides))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., HandWorker]]:
    """Open a stream as a worker; all of them close with the test."""
    workers: list[HandWorker] = []

    def open_stream(acker: AckerProcess, *arguments: Any, **options: Any) -> HandWorker:
        workers.append(HandWorker(acker, *arguments, **options))
        return workers[-1]

    yield open_stream
    for worker in workers:
        worker.close()


@pytest.fixture(scope="module")
def shared_acker(
    zookeeper: EmbeddedZooKeeper, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AckerProcess]:
    """One acker for all tests of a module that leave no trace in it."""
    acker = AckerProcess(tmp_path_factory.mktemp("acker"), zookeeper, f"/test-{request.path.stem}")
    yield acker
    acker.close()
