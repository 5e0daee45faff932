"""Points of charts."""

from __future__ import annotations

import pytest

from tupletree.nimbus.statistics.timeseries import Moment, TimeSeries, moment_of, summed
from tupletree.v1 import nimbus_pb2 as rpc


def moment(at_s: float, acked: float, pending: int = 0) -> Moment:
    return Moment(at_s, 2 * acked, 0, acked, 0, [acked], pending)


def test_a_point_is_what_happened_since_the_moment_before() -> None:
    series = TimeSeries()
    series.add_sample(moment(0.0, 100))
    series.add_sample(moment(5.0, 150, pending=3))
    (point,) = series.points
    assert (point.emitted_per_s, point.acked_per_s, point.latencies, point.pending) == (20, 10, (50,), 3)


def test_a_task_that_joins_makes_no_jump() -> None:
    series = TimeSeries()
    series.add_sample(moment(0.0, 100))
    series.credit(moment(3.0, 1_000_000))
    series.add_sample(moment(5.0, 1_000_110))
    assert series.points[-1].acked_per_s == pytest.approx(2.0)


def test_ten_minutes_are_kept() -> None:
    series = TimeSeries()
    for number in range(1000):
        series.add_sample(moment(5.0 * number, number))
    assert len(series.points) == 120
    assert series.points[-1].at_s - series.points[0].at_s == 595


def test_several_components_as_one() -> None:
    one, other = TimeSeries(), TimeSeries()
    for at_s in (0.0, 5.0, 10.0):
        one.add_sample(moment(at_s, at_s))
    for at_s in (5.0, 10.0):
        other.add_sample(moment(at_s, 3 * at_s, pending=2))
    (point,) = summed([one.points, other.points])
    assert (point.at_s, point.acked_per_s, point.latencies, point.pending) == (10.0, 4.0, (20,), 2)
    assert summed([]) == [] and summed([one.points, []]) == []


def test_what_a_sum_stands_at() -> None:
    stats = rpc.TaskStats(executed=1, acked=2, failed=3, pending=4, queued=5, complete_buckets=[1, 2])
    stats.streams.add(stream="a", emitted=6)
    stats.streams.add(stream="b", emitted=1)
    assert moment_of(stats, 7.0) == Moment(7.0, 7, 1, 2, 3, (1, 2), 4, 5)
