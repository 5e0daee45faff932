"""Watermarks, and the time of tuples."""

from __future__ import annotations

import datetime as dt

import pytest

from tupletree.windows.event_time import Watermarks
from tupletree.windows.lengths import microseconds

A, B = ("a", "default"), ("b", "default")


def test_there_is_no_watermark_before_every_stream_has_brought_a_tuple() -> None:
    watermarks = Watermarks([A, B], lag_us=0)
    watermarks.came(A, 10)
    assert watermarks.announce() is None
    watermarks.came(B, 7)
    assert watermarks.announce() == 7


def test_the_watermark_is_the_slowest_stream_less_the_lag_and_is_announced_when_it_rises() -> None:
    watermarks = Watermarks([A, B], lag_us=3)
    for stream, at_us in ((A, 10), (B, 20), (A, 9)):
        watermarks.came(stream, at_us)
    assert (watermarks.announce(), watermarks.announce()) == (7, None)
    watermarks.came(B, 30)
    assert watermarks.announce() is None
    watermarks.came(A, 40)
    assert watermarks.announce() == 27


def test_a_tuple_is_late_if_it_is_before_the_watermark_announced_last() -> None:
    watermarks = Watermarks([A], lag_us=0)
    watermarks.came(A, 10)
    assert not watermarks.is_late(1)
    watermarks.announce()
    watermarks.came(A, 20)
    assert (watermarks.is_late(9), watermarks.is_late(10), watermarks.is_late(15)) == (True, False, False)


@pytest.mark.parametrize(
    ("timestamp", "us"),
    [
        (1, 1_000_000),
        (0.1, 100_000),
        (-2.5, -2_500_000),
        (1_700_000_000.123456, 1_700_000_000_123_456),
        (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 1_000_000),
        (dt.datetime(1970, 1, 1, 1, 0, 0, 3, tzinfo=dt.timezone(dt.timedelta(hours=1))), 3),
    ],
)
def test_timestamps_are_seconds_or_datetimes(timestamp: object, us: int) -> None:
    assert microseconds(timestamp) == us


@pytest.mark.parametrize("timestamp", [None, "12", True, float("nan"), float("inf"), dt.datetime(2020, 1, 1)])
def test_what_is_no_time_is_refused(timestamp: object) -> None:
    with pytest.raises(ValueError):
        microseconds(timestamp)
