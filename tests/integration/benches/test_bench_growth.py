"""Each curve of ``bench.growth`` comes to its end on a real cluster, and finds its own result right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench._cli import WrongResultError
from bench.growth import shapes, steady
from bench.growth.curves import BY_NAME, CURVES, Curve, NoRoomError
from bench.growth.steady import Shape, Times
from tupletree.testing import DevCluster

pytestmark = pytest.mark.nightly

TIMES = Times(idle_s=0.1, warm_s=0, seconds=0.3, timeout_s=60)
POINT = {
    "tasks": 3,
    "workers": 2,
    "components": 3,
    "copies": 3,
    "bytes": 1000,
    "keys": 50,
    "pending": 50,
    "channels": 4,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=1) as running:
        yield running


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_a_point_of_each_curve(cluster: DevCluster, curve: Curve) -> None:
    figures = curve.measure(cluster, POINT[curve.name], TIMES)
    assert curve.cost in figures
    if curve.name != "channels":
        assert figures[curve.cost] > 0
        assert 0 < figures["p50_ms"] <= figures["p99_ms"]


def test_a_count_that_is_not_the_truth_is_no_result(cluster: DevCluster) -> None:
    right = shapes.payload(10)

    def truth(emitted: int) -> steady.Facts:
        return {"executed": emitted + 1, "length": 10 * emitted}

    wrong = Shape(right.item, right.items, right.build, truth)
    with pytest.raises(WrongResultError, match="the sinks counted executed"):
        steady.measure(cluster, wrong, Times(idle_s=0.1, warm_s=0, seconds=0.3, timeout_s=5))


def test_what_memory_does_not_permit_is_told(cluster: DevCluster) -> None:
    with pytest.raises(NoRoomError, match="pending trees need about"):
        BY_NAME["pending"].measure(cluster, 10**12, TIMES)
