"""KeyedWindow on its own: contents, late and early windows, what is stored, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from keyed_driver import Driver

from tupletree import CountWindow, FailedException, KeyedWindow, Session, Sliding, TopologyBuilder, Tumbling
from tupletree.errors import TopologyError, UsageError
from tupletree.keyed import WindowBounds
from tupletree.testing import FeederSpout, make_tuple, run_bolt
from tupletree.tuples import Tuple


def ms(value: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=value)


class Sums(KeyedWindow):
    key, event_time, late_stream = "key", "at", "late"
    max_lag = ms(0)
    window: Any = Tumbling(ms(10))
    outputs = ["key", "start", "end", "timing", "sum"]

    def initial(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        if tup["n"] < 0:
            raise FailedException("below zero")
        return value + int(tup["n"])

    def on_window(self, key: Any, window: WindowBounds, value: int) -> Iterator[list[Any]]:
        yield [key, *window, value]


class Merging(Sums):
    def merge(self, first: int, second: int) -> int:
        return first + second


def rows(*tuples: tuple[Any, int, int]) -> Iterable[dict[str, Any]]:
    return [{"key": key, "at": at, "n": n} for key, at, n in tuples]


def put(driver: Driver, key: Any, at: int, n: int) -> list[list[Any]]:
    driver.execute(make_tuple({"key": key, "at": at, "n": n}))
    return driver.take()


def test_without_methods_a_window_has_the_values_of_its_tuples() -> None:
    class Contents(KeyedWindow):
        key, event_time, max_lag = "key", "at", ms(0)
        window = Sliding(ms(20), ms(10))
        outputs = ["rows"]

        def on_window(self, key: Any, window: WindowBounds, value: list[list[Any]]) -> Iterator[list[Any]]:
            yield [value]

    recorder = run_bolt(Contents(), rows(("a", 1, 5), ("a", 12, 6), ("a", 11, 7), ("a", 40, 8)))
    first, *others = [["a", 1, 5], ["a", 12, 6], ["a", 11, 7]]
    assert recorder.rows() == [[[first]], [[first, *others]], [[*others]]]
    disordered = type("Disordered", (Contents,), {"max_lag": ms(20)})()
    recorder = run_bolt(disordered, rows(("a", 12, 6), ("a", 11, 7), ("a", 1, 5), ("a", 40, 8)))
    assert recorder.rows()[1:] == [[[first, *others]]], "in the order of panes"
    assert len(recorder.acked) == 4


def test_a_tuple_behind_the_watermark_is_not_late_while_a_window_of_it_is_open() -> None:
    recorder = run_bolt(Sums(), rows(("a", 18, 1), ("a", 11, 2), ("a", 9, 4), ("a", 20, 8)))
    assert recorder.rows() == [["a", 10, 20, "on_time", 3]]
    assert recorder.rows("late") == [[{"key": "a", "at": 9, "n": 4}]]


def test_an_offset_moves_windows() -> None:
    class Shifted(Sums):
        window = Tumbling(ms(10), offset=ms(-3))

    assert run_bolt(Shifted(), rows(("a", 6, 1), ("a", 7, 2), ("a", 17, 0))).rows() == [
        ["a", -3, 7, "on_time", 1],
        ["a", 7, 17, "on_time", 2],
    ]


def test_a_window_is_emitted_again_for_a_late_tuple_until_its_lateness_has_passed() -> None:
    class Late(Sums):
        allowed_lateness = ms(5)

    driver = Driver(Late())
    assert put(driver, "a", 9, 1) == []
    assert put(driver, "b", 14, 0) == [["a", 0, 10, "on_time", 1]]
    late = make_tuple({"key": "a", "at": 2, "n": 7})
    driver.execute(late)
    assert driver.take() == [["a", 0, 10, "late", 8]]
    assert driver.anchors == [(late,)]
    assert put(driver, "c", 4, 3) == [["c", 0, 10, "late", 3]]
    assert put(driver, "b", 15, 0) == []
    assert driver.value("a") is driver.value("c") is None
    driver.execute(make_tuple({"key": "a", "at": 2, "n": 7}))
    assert driver.take("late") == [[{"key": "a", "at": 2, "n": 7}]]


def test_a_tuple_merges_the_sessions_that_it_is_in() -> None:
    class Sessions(Merging):
        window = Session(ms(10))
        max_lag = ms(100)

    driver = Driver(Sessions())
    for at, n in ((100, 1), (118, 2), (109, 4), (128, 8), (92, 16), (105, 32)):
        assert put(driver, "a", at, n) == []
    assert put(driver, "b", 238, 0) == [["a", 92, 128, "on_time", 55], ["a", 128, 138, "on_time", 8]]
    assert driver.value("a") is None


def test_a_session_takes_late_tuples_until_its_lateness_has_passed() -> None:
    class Sessions(Merging):
        window = Session(ms(10))
        allowed_lateness = ms(20)

    driver = Driver(Sessions())
    assert put(driver, "a", 100, 1) == []
    assert put(driver, "x", 115, 0) == [["a", 100, 110, "on_time", 1]]
    assert put(driver, "a", 95, 2) == [["a", 95, 110, "late", 3]]
    assert put(driver, "b", 104, 4) == [["b", 104, 114, "late", 4]]
    assert put(driver, "a", 109, 8) == [], "the session goes on after the watermark"
    assert put(driver, "x", 120, 0) == [["a", 95, 119, "on_time", 11]]
    for at, keys in ((133, "ab"), (134, "a"), (138, "a"), (139, "")):
        put(driver, "x", at, 0)
        assert "".join(key for key in "ab" if driver.value(key) is not None) == keys


def test_a_session_that_grows_has_one_timer() -> None:
    class Sessions(Merging):
        window = Session(ms(10))

    driver = Driver(Sessions())
    timers = driver.bolt._progress
    assert timers is not None
    for at in range(100):
        assert put(driver, "a", at, 1) == []
        assert len(timers.events) == 1
    assert put(driver, "b", 109, 0) == [["a", 0, 109, "on_time", 100]]


def test_windows_of_numbers_of_tuples_have_the_last_of_a_key() -> None:
    class Last(Merging):
        event_time = max_lag = late_stream = None  # type: ignore[assignment]
        window = CountWindow(3, every=2)

    driver = Driver(Last())
    found = [row for n in (1, 2, 4, 8, 16, 32) for row in put(driver, "a", 0, n)]
    assert found == [["a", 0, 2, "on_time", 3], ["a", 1, 4, "on_time", 14], ["a", 3, 6, "on_time", 56]]
    assert put(driver, "b", 0, 5) == []
    driver.restart()
    assert put(driver, "b", 0, 6) == [["b", 0, 2, "on_time", 11]]


def test_windows_of_processing_time_follow_the_clock() -> None:
    class Clocked(Sums):
        event_time = max_lag = late_stream = None  # type: ignore[assignment]

    driver = Driver(Clocked())
    driver.now_ms = 1_003
    put(driver, "a", 0, 1)
    driver.now_ms = 1_012
    put(driver, "a", 0, 2)  # the first window is over, though the clock was not looked at
    assert driver.tick(1_012) == [["a", 1_000, 1_010, "on_time", 1]]
    driver.restart()
    assert driver.tick(5_000) == [["a", 1_010, 1_020, "on_time", 2]]


def test_early_windows_come_while_they_have_new_tuples() -> None:
    class Early(Merging):
        window = Sliding(ms(20), ms(10))
        early_every = ms(100)

    driver = Driver(Early())
    driver.now_ms = 1_000
    put(driver, "a", 15, 1)
    put(driver, "a", 25, 2)
    assert driver.tick(1_099) == []
    assert driver.tick(1_100) == [["a", 10, 30, "early", 3], ["a", 20, 40, "early", 2]]
    assert driver.tick(9_000) == [], "nothing is new"
    assert put(driver, "a", 28, 4) == []
    driver.restart()
    assert driver.tick(9_100) == [["a", 10, 30, "early", 7], ["a", 20, 40, "early", 6]]
    put(driver, "a", 29, 8)
    assert put(driver, "b", 40, 0) == [["a", 10, 30, "on_time", 15], ["a", 20, 40, "on_time", 14]]
    assert driver.bolt._progress is not None
    assert len(driver.bolt._progress.processing) == 1, "that of the other key is deleted"
    assert driver.tick(99_000) == [["b", 30, 50, "early", 0], ["b", 40, 60, "early", 0]]


def test_tuples_of_a_window_that_is_over_are_not_counted_for_early_windows() -> None:
    class Early(Sums):
        early_every, allowed_lateness = ms(100), ms(50)

    driver = Driver(Early())
    put(driver, "a", 5, 1)
    assert driver.value("a") == [{0: 1}, {"pending": {0: 1}, "early": 100}]
    put(driver, "b", 10, 1)
    assert driver.value("a") == [{0: 1}, {"early": 100}]
    assert driver.tick(100) == [["b", 10, 20, "early", 1]]


def test_an_early_window_comes_after_a_number_of_new_tuples() -> None:
    class Early(Merging):
        early_count = 2

    found = run_bolt(Early(), rows(*(("a", at, 1) for at in (1, 2, 3, 4, 5, 10)))).rows()
    assert found == [["a", 0, 10, "early", 2], ["a", 0, 10, "early", 4], ["a", 0, 10, "on_time", 5]]


def test_a_window_keeps_one_value_and_a_sliding_window_two_for_each_slide() -> None:
    class Slid(Merging):
        window = Sliding(ms(1_001), ms(100))

    tumbling, slid = Driver(Sums()), Driver(Slid())
    for n in range(1_000):
        put(tumbling, "a", 5, 1)
        put(slid, "a", n, 1)
    assert tumbling.value("a") == [{0: 1_000}, {}]
    assert len(slid.value("a")[0]) == 20
    assert put(slid, "b", 1_001, 0)[-1] == ["a", 0, 1_001, "on_time", 1_000]


def test_a_tuple_that_fails_is_in_no_window() -> None:
    class Slid(Sums):
        window = Sliding(ms(20), ms(10))

    recorder = run_bolt(Slid(), rows(("a", 15, 1), ("a", 16, -1), ("b", 17, -1), ("a", 30, 0)))
    assert recorder.rows() == [["a", 0, 20, "on_time", 1], ["a", 10, 30, "on_time", 1]]
    assert [len(recorder.failed), len(recorder.acked)] == [2, 2]


def test_a_window_has_no_tuple_that_could_fail() -> None:
    class Refusing(Sums):
        early_count = 1

        def on_window(self, key: Any, window: WindowBounds, value: int) -> Iterator[list[Any]]:
            raise FailedException("not this one")

    with pytest.raises(UsageError, match=r"on_window raised FailedException for key 'a', and a window has no tuple"):
        run_bolt(Refusing(), rows(("a", 1, 1)))


def test_a_key_of_a_count_window_that_has_expired_begins_anew() -> None:
    class Last(Sums):
        event_time = max_lag = late_stream = None  # type: ignore[assignment]
        window, ttl, early_every = CountWindow(2), ms(1_000), ms(5_000)

    driver = Driver(Last())
    put(driver, "a", 0, 1)
    assert driver.tick(1_000) == []
    assert driver.value("a") is None
    assert driver.tick(5_000) == []
    assert put(driver, "a", 0, 2) == []
    assert put(driver, "a", 0, 4) == [["a", 0, 2, "on_time", 6]]


@pytest.mark.parametrize(
    "attributes", [{"window": Sliding(ms(10), ms(5))}, {"window": Session(ms(10))}, {"window": Tumbling(ms(20))}]
)
def test_a_state_with_other_windows_is_refused(attributes: dict[str, Any]) -> None:
    driver = Driver(Merging())
    put(driver, "a", 5, 1)
    driver.checkpoint()
    driver._submitted = type("Changed", (Merging,), attributes)()
    with pytest.raises(UsageError, match=r"has windows of the layout \[1, 'event', 10, 10, 0, True\], and the class"):
        driver.crash()


def test_lateness_and_triggers_may_change() -> None:
    driver = Driver(type("Longer", (Merging,), {"allowed_lateness": ms(50)})())
    put(driver, "a", 5, 1)
    assert put(driver, "b", 15, 1) == [["a", 0, 10, "on_time", 1]]
    driver.checkpoint()
    driver._submitted = type("Changed", (Merging,), {"early_every": ms(50), "early_count": 9})()
    driver.crash()
    assert put(driver, "b", 60, 1) == [["b", 10, 20, "on_time", 1]]
    assert driver.value("a") is None
    driver.restart()


def ignored(*arguments: Any) -> None:
    """A method of a faulty class."""


CLOCKED = {"event_time": None, "max_lag": None, "late_stream": None}


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"window": None}, "window must be a window of the kind Tumbling, Sliding, Session or CountWindow, not None"),
        ({"window": ms(5)}, "window must be a window of the kind Tumbling, Sliding, Session or CountWindow"),
        ({"window": Tumbling(5)}, "window.size must be a timedelta of at least 1 ms, not 5"),
        ({"window": Tumbling(ms(5), 3)}, "window.offset must be a timedelta, not 3"),
        ({"window": Sliding(ms(5), ms(0))}, "window.every must be a timedelta of at least 1 ms"),
        ({"window": Sliding(ms(5), ms(6))}, "window.every must be at most window.size"),
        ({"window": Session(ms(5))}, "window is a Session, and needs merge(first, second)"),
        ({"window": Session(None), "merge": lambda self, first, second: first}, "window.gap must be a timedelta"),
        ({"window": CountWindow(5)}, "event_time has no use: a CountWindow counts tuples in the order"),
        ({**CLOCKED, "window": CountWindow(0)}, "window.size must be a number of tuples, at least 1, not 0"),
        ({**CLOCKED, "window": CountWindow(5, True)}, "window.every must be a number of tuples, at least 1, not True"),
        ({**CLOCKED, "window": CountWindow(5, 6)}, "window.every must be at most window.size, 5, not 6"),
        ({**CLOCKED, "window": CountWindow(5), "early_count": 1}, "early_count has no use with a CountWindow"),
        ({**CLOCKED, "window": CountWindow(5), "allowed_lateness": ms(1)}, "allowed_lateness has no use"),
        ({**CLOCKED, "allowed_lateness": ms(1)}, "allowed_lateness needs event time: set event_time too"),
        ({"allowed_lateness": None}, "allowed_lateness must be a timedelta of at least 0 ms, not None"),
        ({"early_every": 5}, "early_every must be a timedelta of at least 1 ms, not 5"),
        ({"early_count": 0}, "early_count must be a number of tuples, at least 1, not 0"),
        ({"ttl": ms(5)}, "ttl needs a CountWindow: a window in time is removed when it is over"),
        ({"default_factory": int}, "default_factory is not used by windows: define initial"),
        ({"add": KeyedWindow.add}, "add is missing, and initial needs it"),
        ({"on_window": KeyedWindow.on_window}, "Faulty has no on_window(key, window, value)"),
        ({"on_tuple": ignored}, "on_tuple is never called: a KeyedWindow aggregates tuples: define initial and add"),
        ({"on_timer": ignored}, "on_timer is never called: a KeyedWindow emits windows at timers: define on_window"),
        ({"max_lag": None}, "max_lag is missing"),
    ],
)
def test_faulty_settings_are_refused_when_the_topology_is_built(attributes: dict[str, Any], fault: str) -> None:
    faulty = type("Faulty", (Sums,), attributes)
    builder = TopologyBuilder()
    builder.set_spout("sales", FeederSpout(["key", "at", "n"]))
    with pytest.raises(TopologyError) as refused:
        builder.set_bolt("sums", faulty()).fields_grouping("sales", ["key"])
        builder.create_topology()
    assert "bolt 'sums'" in str(refused.value) and fault in str(refused.value)
