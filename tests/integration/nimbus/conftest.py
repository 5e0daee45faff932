"""Benches of real processes: one for each test, or one with a leader for all tests of a module."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nimbus_harness import Bench, NimbusProcess

from tupletree._devcluster.guard import Guard
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper


@contextmanager
def opened(zookeeper: EmbeddedZooKeeper) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="tupletree-nimbus-") as directory:
        guard = Guard(directory, remove=False)
        try:
            one = Bench(Path(directory), zookeeper, f"/test-{uuid.uuid4().hex[:12]}")
            try:
                yield one
            finally:
                one.close()
        finally:
            guard.close()


@pytest.fixture
def bench(zookeeper: EmbeddedZooKeeper) -> Iterator[Bench]:
    with opened(zookeeper) as one:
        yield one


@pytest.fixture(scope="module")
def shared(zookeeper: EmbeddedZooKeeper) -> Iterator[Bench]:
    """The bench that ``leader`` is on. Tests on it use names of their own."""
    with opened(zookeeper) as one:
        yield one


@pytest.fixture(scope="module")
def leader(shared: Bench) -> NimbusProcess:
    """A nimbus that leads throughout the module."""
    return shared.leader("n1", "nimbus.topology.blobstore.deletion.delay.ms=200")
