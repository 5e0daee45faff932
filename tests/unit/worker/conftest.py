"""A local cluster, and a latch for components to wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_components import Latch

from tupletree.testing import LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def latch() -> Iterator[Latch]:
    """What a component waits for; opened at the end whatever happens, so that no thread stays behind."""
    made = Latch()
    yield made
    made.set()
