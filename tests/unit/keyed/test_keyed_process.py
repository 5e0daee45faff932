"""KeyedProcess on its own: values, timers, late tuples, expiry, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from keyed_driver import Driver

from tupletree import BasicBolt, FailedException, KeyedProcess, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.errors import TopologyError, UsageError
from tupletree.keyed import KeyState, Timers
from tupletree.testing import FeederSpout, make_tuple, run_bolt
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


class Log(KeyedProcess):
    """Does to its timers what its tuples say, and emits which timers fire."""

    key, event_time = "key", "at"
    max_lag = dt.timedelta(0)
    outputs = ["key", "time", "kind"]

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        for call, time in tup["calls"]:
            getattr(timers, call)(time)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
        yield [key, time, "processing" if timers.is_processing else "event"]


def calls(driver: Driver, key: Any, at: int, **times: int) -> list[list[Any]]:
    driver.execute(make_tuple({"key": key, "at": at, "calls": list(times.items())}))
    return driver.take()


def test_timers_fire_in_order_once_each_and_not_when_deleted() -> None:
    driver = Driver(Log())
    calls(driver, "a", 0, set=5)
    calls(driver, "b", 0, set=3)
    calls(driver, "a", 0, set=5)
    calls(driver, "c", 0, set=4)
    calls(driver, "c", 0, delete=4)
    calls(driver, "d", 0, delete=4, set=7)
    assert calls(driver, "x", 6) == [["b", 3, "event"], ["a", 5, "event"]]
    assert calls(driver, "x", 7) == [["d", 7, "event"]]
    assert calls(driver, "x", 100) == []


def test_a_timer_in_the_past_fires_before_the_next_tuple() -> None:
    driver = Driver(Log())
    calls(driver, "x", 10)
    assert calls(driver, "x", 10, set=2) == [["x", 2, "event"]]


def test_processing_timers_fire_at_a_tick_whatever_the_watermark_is() -> None:
    driver = Driver(Log())
    driver.now_ms = 1_000
    calls(driver, "a", 0, set_processing=1_250)
    calls(driver, "a", 0, set_processing=1_300, delete_processing=1_300)
    calls(driver, "b", 99_999, set_processing=1_200, set=100_000)
    assert driver.tick(1_199) == []
    assert driver.tick(1_250) == [["b", 1_200, "processing"], ["a", 1_250, "processing"]]
    assert driver.anchors == [(), ()]
    assert driver.tick(9_999) == []


def test_the_clock_of_a_task_never_goes_back() -> None:
    driver = Driver(Log())
    driver.tick(1_000)
    driver.now_ms = 500
    assert driver.bolt._timers.now == 1_000


class Latest(KeyedProcess):
    key = ("shop", "user")
    outputs = ["shop", "user", "before"]
    ttl = dt.timedelta(seconds=10)

    def on_tuple(self, tup: Tuple, state: KeyState[int | None], timers: Timers) -> Iterator[list[Any]]:
        yield [*state.key, state.value]
        if tup["n"] is None:
            state.clear()
            assert not state.exists
        else:
            state.value = tup["n"]
            assert state.exists


def put(driver: Driver, user: str, n: int | None) -> Any:
    driver.execute(make_tuple({"shop": 1, "user": user, "n": n}))
    [[_, _, before]] = driver.take()
    return before


def test_a_value_expires_when_it_was_not_assigned_for_its_time_to_live() -> None:
    driver = Driver(Latest())
    assert put(driver, "ann", 1) is None
    driver.tick(6_000)
    assert put(driver, "bob", 5) is None
    assert put(driver, "ann", 2) == 1
    driver.tick(10_000)
    assert put(driver, "cid", 9) is None
    driver.restart()
    driver.tick(15_999)
    assert driver.value(("$key", (1, "ann"))) == 2
    driver.tick(16_000)
    assert driver.value(("$key", (1, "ann"))) is None
    driver.tick(20_000)
    assert put(driver, "cid", None) is None
    assert len(driver.bolt._progress.expiries) == 0  # type: ignore[union-attr]
    driver.checkpoint()
    assert not [key for key in driver.state if key[0] == "$timers"]


def test_the_time_to_live_counts_from_a_value_that_was_cleared_and_set_again() -> None:
    driver = Driver(Latest())
    put(driver, "ann", 1)
    driver.tick(5_000)
    put(driver, "ann", None)
    driver.tick(9_000)
    put(driver, "ann", 2)
    driver.tick(10_000)
    assert put(driver, "ann", 3) == 2
    driver.tick(19_999)
    assert driver.value(("$key", (1, "ann"))) == 3
    driver.tick(20_000)
    assert driver.value(("$key", (1, "ann"))) is None


def test_keys_of_tuples_are_never_taken_for_entries_of_timers() -> None:
    class Pairs(KeyedProcess):
        key, event_time = ("a", "b"), "at"
        max_lag = dt.timedelta(0)
        default_factory = int

        def on_tuple(self, tup: Tuple, state: KeyState[int], timers: Timers) -> None:
            state.value += 1
            timers.set(50)

        def on_timer(self, key: Any, time: int, state: KeyState[int], timers: Timers) -> None:
            state.value += 100

    driver = Driver(Pairs())
    for _ in range(2):
        for a, b in (("$timers", "$key"), ("$key", "$progress"), ("$progress", 1)):
            driver.execute(make_tuple({"a": a, "b": b, "at": 0}))
        driver.restart()
    driver.execute(make_tuple({"a": "x", "b": "x", "at": 50}))
    assert driver.value(("$key", ("$timers", "$key"))) == 102
    assert driver.value(("$key", ("$key", "$progress"))) == 102
    assert driver.value(("$key", ("$progress", 1))) == 102


def test_failed_exception_fails_the_tuple_and_a_timer_has_none() -> None:
    class Refusing(Log):
        def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
            timers.set(5)
            if tup["at"] == 1:
                raise FailedException("not this one")

        def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
            raise FailedException("no tuple here")

    recorder = run_bolt(Refusing(), [{"key": "a", "at": 1}, {"key": "a", "at": 2}])
    assert [len(recorder.failed), len(recorder.acked)] == [1, 1]
    with pytest.raises(UsageError, match=r"on_timer raised FailedException for key 'a', and a timer has no tuple"):
        run_bolt(Refusing(), [{"key": "a", "at": 2}, {"key": "a", "at": 9}])


def test_calls_that_cannot_mean_anything_are_refused() -> None:
    class Clocked(Log):
        event_time = None

    with pytest.raises(UsageError, match="a timer in event time needs event_time on the class"):
        run_bolt(Clocked(), [{"key": "a", "calls": [("set", 5)]}])
    with pytest.raises(UsageError, match=r"must be a whole number of milliseconds, not 1\.5"):
        run_bolt(Clocked(), [{"key": "a", "calls": [("set_processing", 1.5)]}])


@pytest.mark.parametrize("call", ["set", "set_processing"])
def test_a_timer_without_on_timer_is_refused_when_it_is_set(call: str) -> None:
    class Deaf(KeyedProcess):
        key, event_time, max_lag = "key", "at", dt.timedelta(0)

        def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
            getattr(timers, call)(5)

    with pytest.raises(UsageError, match=r"a timer needs Deaf\.on_timer\(key, time, state, timers\), and"):
        run_bolt(Deaf(), [{"key": "a", "at": 1}])


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"key": ""}, "key must be the name of a field, or names of fields, not ''"),
        ({"key": ["a", 1]}, "key must be the name of a field, or names of fields"),
        ({"key": []}, "key must be the name of a field, or names of fields, not []"),
        ({"key": None}, "key must be the name of a field, or names of fields, not None"),
        ({"event_time": 5}, "event_time must be a name, not 5"),
        ({"max_lag": 5}, "max_lag must be a timedelta of at least 0 ms, not 5"),
        ({"max_lag": None}, "max_lag is missing, and event_time needs it: write max_lag = timedelta(...), how far"),
        ({"idle_timeout": dt.timedelta(0)}, "idle_timeout must be a timedelta of at least 1 ms"),
        ({"ttl": 60}, "ttl must be a timedelta of at least 1 ms, not 60"),
        ({"event_time": None, "max_lag": dt.timedelta(seconds=1)}, "max_lag needs event time"),
        ({"event_time": None, "late_stream": "late"}, "late_stream needs event time"),
        ({"tick": lambda self: None}, "tick is never called: a KeyedProcess fires its timers at ticks"),
        ({"execute": lambda self, tup: None}, "execute is never called: define on_tuple"),
        ({"on_tuple": lambda self, tup: None}, "on_tuple takes"),
        ({"on_tuple": KeyedProcess.on_tuple}, "Faulty has no on_tuple(tup, state, timers)"),
    ],
)
def test_faulty_settings_are_refused_when_the_topology_is_built(attributes: dict[str, Any], fault: str) -> None:
    faulty = type("Faulty", (Log,), attributes)
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["key", "at", "calls"]))
    with pytest.raises(TopologyError) as refused:
        builder.set_bolt("log", faulty()).fields_grouping("words", ["key"])
        builder.create_topology()
    assert "bolt 'log'" in str(refused.value) and fault in str(refused.value)


class Pass(BasicBolt):
    outputs = ["key", "at", "calls", "shop"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def test_a_grouping_that_tears_a_key_apart_is_refused() -> None:
    class Keyed(Log):
        key = ["key", "shop"]

    def build(tasks: int, *groupings: Any) -> None:
        builder = TopologyBuilder()
        builder.set_spout("words", FeederSpout(["key", "at", "calls", "shop"]))
        builder.set_bolt("pass", Pass()).shuffle_grouping("words")
        declarer = builder.set_bolt("log", Keyed(), tasks)
        for grouping in groupings:
            grouping(declarer)
        builder.create_topology()

    build(1, lambda bolt: bolt.shuffle_grouping("words"))
    build(2, lambda bolt: bolt.global_grouping("words"))
    build(2, lambda bolt: bolt.fields_grouping("words", ["key"]), lambda bolt: bolt.fields_grouping("pass", ["key"]))
    for torn in (
        [lambda bolt: bolt.shuffle_grouping("words")],
        [lambda bolt: bolt.fields_grouping("words", ["at"])],
        [lambda bolt: bolt.partial_key_grouping("words", ["key"])],
        [lambda bolt: bolt.fields_grouping("words", ["key"]), lambda bolt: bolt.fields_grouping("pass", ["shop"])],
    ):
        with pytest.raises(TopologyError, match="use a fields grouping by 'key', 'shop'"):
            build(2, *torn)


def test_a_state_of_a_newer_version_is_refused() -> None:
    driver = Driver(Log())
    driver.prepare()
    driver.state.put(("$progress",), {"format": 2, "watermark": None, "newest": [], "has_timers": False})
    driver.state.commit(1)
    driver.state.prepare_commit(2)
    driver.state.commit(2)
    with pytest.raises(UsageError, match="a newer version has written them"):
        driver.crash()
