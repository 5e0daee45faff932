"""Fixtures that every suite shares. Each process started here ends with the tests, even if they are killed."""

from __future__ import annotations

import gc
import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies

# As the supervisor starts workers, which drive Spark beside gRPC: PySpark forks to start its JVM, and gRPC's handlers
# of forks start threads in the child, whose descriptors are being closed. It is read once, when gRPC is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tupletree._devcluster.guard import Guard
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper

PROPERTY_EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "30"))
"""The number of inputs that Hypothesis draws for a test that does not say its own."""
# Without a deadline, which would judge the machine's load.
settings.register_profile("ours", max_examples=PROPERTY_EXAMPLES, deadline=None)
settings.load_profile("ours")

TESTS = Path(__file__).parent
LONG = ("chaos", "fuzz", "network")
"""Folders of which every test is marked as long: ``make test-long``."""
QUICK = ("simulation", "unit")
"""Folders whose files take seconds. They come last, so that two processes end at about the same time."""
ONE_PROCESS = ("integration/spark", "integration/badinput", "browser")
"""Folders whose files share a Spark session, a cluster or a browser, and so run in one process, from the beginning."""


class Folder(pytest.Package):
    """A folder of tests. What its conftest.py makes with scope "package" ends with it.

    pytest itself ends such a fixture with the folder only where that has an ``__init__.py``, and otherwise with the
    session: a cluster of one folder would then run, and take its share of the machine, beside all tests that follow.
    """

    def setup(self) -> None:
        """Import no ``__init__.py``: there is none."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector:
    """Collect each folder as a ``Folder``."""
    folder: pytest.Collector = Folder.from_parent(parent, path=path)
    return folder


def pytest_sessionstart() -> None:
    """Make Hypothesis's table of characters, which takes a second in a fresh checkout. Otherwise the first test that
    draws a text pays for it, and its health check calls the test's own strategy too slow."""
    gc.disable()  # what is collected from here on lives until the end: see pytest_collection_finish
    with warnings.catch_warnings(action="ignore"):  # Hypothesis warns of slow code at a session's start: this is it
        strategies.text().validate()


def pytest_collection_finish() -> None:
    """Leave modules and thousands of tests out of all collections of garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of long folders and of nights, and put files in the order in which processes take them."""
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in LONG or item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.long)
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        items.sort(key=lambda item: _rank(item.path.relative_to(TESTS)))


def _rank(file: Path) -> tuple[bool, bool, Path]:
    """Return the sort key of a file: large folders first, quick ones last."""
    return file.parts[0] in QUICK, not any(file.is_relative_to(folder) for folder in ONE_PROCESS), file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of ``--dist loadfile``, with the files of one process as one file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByProcess(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in ONE_PROCESS if f"tests/{folder}/" in file), file)

    return ByProcess(config, log)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper for all tests of a process, which may kill and restart it but leave it running."""
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
