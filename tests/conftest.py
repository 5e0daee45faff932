"""Fixtures that every suite shares. Each process started here ends with the tests, even if they are killed."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies

# As the supervisor starts workers, which drive Spark beside gRPC: PySpark forks to start its JVM, and gRPC's handlers
# of forks start threads in the child, whose descriptors are being closed. It is read once, when gRPC is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tupletree._devcluster.guard import Guard
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper

TESTS = Path(__file__).parent
LONG = ("chaos", "fuzz", "network")
"""Folders of which every test is marked as long: ``make test-long``."""


def pytest_sessionstart() -> None:
    """Make Hypothesis's table of characters, which takes a second in a fresh checkout. Otherwise the first test that
    draws a text pays for it, and its health check calls the test's own strategy too slow."""
    strategies.text().validate()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of long folders."""
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in LONG:
            item.add_marker(pytest.mark.long)


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
