"""KeyedProcess on its own: values, timers, expiry, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from keyed_driver import Driver

from tupletree import BasicBolt, FailedException, KeyedProcess, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.errors import TopologyError, UsageError
from tupletree.keyed import KeyState, Timers
from tupletree.testing import FeederSpout, make_tuple, run_bolt
from tupletree.tuples import Tuple


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
