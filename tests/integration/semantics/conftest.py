"""Fixtures of the semantics tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scene import Scene

from tupletree.testing import LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(simulated_time=True) as running:
        yield running


@pytest.fixture
def scene(cluster: LocalCluster) -> Scene:
    return Scene(cluster)
