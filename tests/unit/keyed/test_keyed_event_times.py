"""KeyedProcess on its own: event times, watermarks and late tuples."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from keyed_driver import Driver

from tupletree import FailedException, KeyedProcess
from tupletree.keyed import KeyState, Timers
from tupletree.keyed.watermark import BEFORE_ALL, Watermark
from tupletree.testing import make_tuple, run_bolt
from tupletree.tuples import Tuple


class Sums(KeyedProcess):
    """Adds up the values of a key in each window of ten milliseconds, and emits the sum when the window is over."""

    key, event_time, late_stream = "key", "at", "late"
    max_lag = dt.timedelta(0)
    outputs = ["key", "end", "sum"]
    default_factory = dict

    def on_tuple(self, tup: Tuple, state: KeyState[dict[str, int]], timers: Timers) -> None:
        end = tup["at"] // 10 * 10 + 10
        sums = state.value
        state.value = {**sums, str(end): sums.get(str(end), 0) + tup["n"]}
        timers.set(end)

    def on_timer(self, key: Any, time: int, state: KeyState[dict[str, int]], timers: Timers) -> Iterator[list[Any]]:
        sums = dict(state.value)
        yield [key, time, sums.pop(str(time))]
        if sums:
            state.value = sums
        else:
            state.clear()


def rows(*tuples: tuple[Any, int, int]) -> Iterable[dict[str, Any]]:
    return [{"key": key, "at": at, "n": n} for key, at, n in tuples]


def test_a_timer_fires_when_the_watermark_has_reached_its_time() -> None:
    recorder = run_bolt(Sums(), rows(("a", 1, 1), ("b", 2, 5), ("a", 9, 2), ("b", 10, 7), ("a", 30, 9)))
    assert recorder.rows() == [["a", 10, 3], ["b", 10, 5], ["b", 20, 7]]
    assert len(recorder.acked) == 5


def test_rows_of_a_timer_are_anchored_to_the_tuple_that_raised_the_watermark() -> None:
    last = make_tuple({"key": "b", "at": 10, "n": 1})
    recorder = run_bolt(Sums(), [*rows(("a", 1, 1)), last])
    assert [one.anchors for one in recorder.emitted] == [(last,)]


def test_a_late_tuple_goes_to_its_stream_and_not_to_on_tuple() -> None:
    recorder = run_bolt(Sums(), rows(("a", 25, 1), ("a", 24, 2), ("a", 25, 4), ("a", 40, 0)))
    assert recorder.rows("late") == [[{"key": "a", "at": 24, "n": 2}]]
    assert recorder.rows() == [["a", 30, 5]]
    assert len(recorder.acked) == 4


@pytest.mark.parametrize(
    ("at", "doubt"),
    [
        (0, None),
        (100_000, None),
        (-(10**9), None),
        (86_400_000, None),
        (1_795_469_960, "event time 1795469960 (1970-01-21T18:44:29.960+00:00) looks like seconds"),
        (1_795_469_960_000, None),
        (
            1_795_469_960_000_000,
            "event time 1795469960000000 (outside the years 1 to 9999) looks like microseconds or less",
        ),
    ],
)
def test_a_first_time_that_is_not_in_milliseconds_is_reported_once(at: int, doubt: str | None) -> None:
    recorder = run_bolt(Sums(), rows(("a", at, 1), ("a", at + 1, 2)))
    expected = [] if doubt is None else [f"{doubt}: times are milliseconds since 1970"]
    assert [str(error) for error in recorder.errors] == expected


def test_late_tuples_that_are_dropped_are_reported_whenever_their_number_has_doubled() -> None:
    class Dropping(Sums):
        late_stream = None

    day_ms = 86_400_000
    recorder = run_bolt(Dropping(), rows(("a", day_ms, 1), *(("a", at, 1) for at in range(9))))
    assert len(recorder.acked) == 10
    assert [str(error).split(" late")[0] for error in recorder.errors] == [f"{n} tuple{s}" for n, s in REPORTED]
    assert str(recorder.errors[2]) == (
        "4 tuples are late so far and were dropped, the newest with the event time 3 (1970-01-01T00:00:00.003+00:00), "
        "behind the watermark 86400000 (1970-01-02T00:00:00.000+00:00): raise max_lag, or name a late_stream"
    )


REPORTED = [(1, " is"), (2, "s are"), (4, "s are"), (8, "s are")]


def test_an_event_time_in_a_wrong_unit_shows_in_the_report_of_late_tuples() -> None:
    class Dropping(Sums):
        late_stream = None

    at_ms = 1_767_268_800_000
    recorder = run_bolt(Dropping(), rows(("a", at_ms * 1000, 1), ("a", at_ms, 1)))
    doubt, error = recorder.errors
    assert "looks like microseconds" in str(doubt)
    assert "the event time 1767268800000 (2026-01-01T12:00:00.000+00:00)" in str(error)
    assert "the watermark 1767268800000000 (outside the years 1 to 9999)" in str(error)


def test_late_tuples_of_a_late_stream_are_no_errors() -> None:
    assert run_bolt(Sums(), rows(("a", 25, 1), ("a", 24, 2))).errors == []


def test_disorder_within_the_lag_is_not_late() -> None:
    class Lagging(Sums):
        max_lag = dt.timedelta(milliseconds=5)

    recorder = run_bolt(Lagging(), rows(("a", 12, 1), ("a", 8, 2), ("a", 15, 4), ("a", 6, 8)))
    assert recorder.rows() == [["a", 10, 2]]
    assert recorder.rows("late") == [[{"key": "a", "at": 6, "n": 8}]]


def test_event_times_may_be_datetimes_with_a_time_zone() -> None:
    at = dt.datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC)

    class Times(KeyedProcess):
        key, event_time, outputs = "key", "at", ["at"]
        max_lag = dt.timedelta(0)

        def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
            if not state.exists:
                timers.set(1_767_268_800_251)
            state.value = True

        def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
            yield [timers.watermark]

    later = at + dt.timedelta(milliseconds=3)
    assert run_bolt(Times(), [{"key": "a", "at": at}, {"key": "a", "at": later}]).rows() == [[1_767_268_800_253]]


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"key": "a", "at": "noon", "n": 1}, "event time field 'at' of a tuple of 'test', stream 'default', is 'noon'"),
        ({"key": "a", "at": True, "n": 1}, "is True"),
        ({"key": "a", "at": 1.5, "n": 1}, "is 1.5"),
        ({"key": "a", "at": 1_700_000_000 * 10**9, "n": 1}, "is 1700000000000000000; a whole number of milliseconds"),
        ({"key": "a", "at": dt.datetime(2026, 1, 1), "n": 1}, "a datetime with a time zone was expected"),
        ({"key": None, "at": 999, "n": 1}, "key field 'key' of a tuple of 'test', stream 'default', is None"),
        ({"key": True, "at": 999, "n": 1}, "is True; a str, bytes, an int or a tuple of these was"),
        ({"key": ("a", None), "at": 999, "n": 1}, "is ('a', None)"),
    ],
)
def test_a_tuple_without_a_valid_time_or_key_fails_and_the_others_go_on(values: dict[str, Any], fault: str) -> None:
    driver = Driver(Sums())
    with pytest.raises(FailedException) as refused:
        driver.execute(make_tuple(values))
    assert fault in str(refused.value)
    assert driver.bolt._timers.watermark is None
    driver.execute(make_tuple({"key": "a", "at": 30, "n": 1}))
    driver.execute(make_tuple({"key": "a", "at": 40, "n": 1}))
    assert driver.take() == [["a", 40, 1]]


def test_senders_may_have_idle_timeouts_of_their_own() -> None:
    watermark = Watermark([1, 2, 3], 0, None, 0, {2: 1_000, 3: 2_000})
    watermark.came(1, 50)
    for now_ms in range(500, 2_000, 500):
        watermark.tick(now_ms)
        assert watermark.value == BEFORE_ALL  # the third is not idle yet
    watermark.tick(2_000)
    assert watermark.value == 50
    watermark.came(2, 40)
    watermark.came(1, 90)
    assert watermark.value == 50  # the second is back, and further behind
    for now_ms in range(2_500, 9_000, 500):
        watermark.tick(now_ms)
    assert watermark.value == 90  # the first has no timeout: it counts, however long it is silent
