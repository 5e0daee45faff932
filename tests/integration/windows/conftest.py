"""Fixtures of the tests of windows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tupletree.testing import LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(simulated_time=True) as running:
        yield running
