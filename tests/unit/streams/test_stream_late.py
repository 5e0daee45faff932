"""Elements that come too late for windows and joins, against a straightforward computation over the same elements.

An element is late if it comes when the watermark has passed. So a source waits in the midst of its elements, until
results show how far the watermark is.
"""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree import CountWindow, KeyedProcess, Session, Sliding, Tumbling
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import UsageError
from tupletree.keyed import KeyState, Timers
from tupletree.streams import KeyedStream, Stream, StreamBuilder, Windowed
from tupletree.testing import LocalCluster, wait_until
from tupletree.tuples import Tuple

MS = timedelta(milliseconds=1)
LAG = 200
MARK = 1_000
"""The watermark while the elements after the pause come."""

DURABLE = {"topology.state.provider": "sqlite", "topology.state.checkpoint.interval.ms": 100}
Event = tuple[str, int]
USERS = ("ann", "bob", "cyd")
PASSED: dict[str, set[str]] = {}
"""The users whose tasks have come to the watermark MARK, by program: copies of results and sources meet here."""
FOUND: dict[str, list[Click]] = {}
"""The elements in windows, by program."""


class Click(NamedTuple):
    user: str
    at: int


MARKS = [Click(user, MARK - 1) for user in USERS]


class Clicks:
    """A source: elements, then some that bring the watermark to MARK, and then elements when it is there.

    ``marks``: an element of each user whose result shows that.
    """

    def __init__(self, before: list[Click], after: list[Click], marks: Sequence[Click] = MARKS) -> None:
        self.id = uuid.uuid4().hex
        self.before = before
        self.after = after
        self.marks = marks
        PASSED[self.id] = set()

    def __call__(self) -> Iterator[Click | None]:
        yield from self.before
        yield from self.marks
        yield Click("", MARK + LAG)
        while PASSED[self.id] < set(USERS):
            yield None
        yield from self.after


class Passes:
    """Records that the watermark is at MARK in the task of a user. ``is_mark``: finds the results that show it."""

    def __init__(self, clicks: Clicks, user: Callable[[Any], str | None]) -> None:
        self.id = clicks.id
        self.user = user

    def __call__(self, result: Any) -> None:
        user = self.user(result)
        if user is not None:
            PASSED[self.id].add(user)


class Finds:
    """Records the elements of windows."""

    def __init__(self, clicks: Clicks) -> None:
        self.id = clicks.id
        FOUND[self.id] = []

    def __call__(self, window: Windowed[list[Click]]) -> None:
        FOUND[self.id] += window.value


def timed(clicks: Clicks, name: str = "clicks", builder: StreamBuilder | None = None) -> KeyedStream[str, Click]:
    source = (builder or StreamBuilder()).source(clicks, name=name)
    return source.event_time(lambda click: click.at, max_lag=LAG * MS).key_by(lambda click: click.user)


def collected(stream: Stream[Any]) -> list[Any]:
    return stream.collect(1_000_000, seconds=60)


def user_of_mark(pair: Any) -> str | None:
    """Return the user of a window that ends at MARK."""
    user, window = pair
    return user if window.end == MARK else None


def late_of(clicks: Clicks, window: Any, **settings: Any) -> list[Any]:
    counts = timed(clicks).window(window, **settings).count(parallelism=2)
    counts.items().peek(Passes(clicks, user_of_mark))
    return sorted(collected(counts.late))


events = st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, LAG)), max_size=12)
later = st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, MARK + LAG)), max_size=12)


def of(events: list[Event]) -> list[Click]:
    return [Click(*one) for one in events]


def late_clicks(after: list[Event], over: Callable[[int], bool]) -> list[tuple[str, Click]]:
    """Return the elements with their keys of those whose time is over."""
    return sorted((click.user, click) for click in of(after) if over(click.at))


@settings(max_examples=8, deadline=None)
@given(events, later, st.sampled_from([0, 1, 2]))
def test_elements_are_late_whose_windows_are_all_over(before: list[Event], after: list[Event], lateness: int) -> None:
    clicks = Clicks(of(before), of(after))
    late = late_of(clicks, Sliding(100 * MS, every=50 * MS), allowed_lateness=100 * lateness * MS)
    assert late == late_clicks(after, lambda at: at // 50 * 50 + 100 * (1 + lateness) <= MARK)


@settings(max_examples=5, deadline=None)
@given(events, later)
def test_every_element_is_in_a_session_or_late(before: list[Event], after: list[Event]) -> None:
    marks = [Click(user, MARK - 10) for user in USERS]
    clicks = Clicks(of(before), of(after), marks)
    sessions = timed(clicks).window(Session(10 * MS)).to_list()
    sessions.items().peek(Passes(clicks, user_of_mark))
    sessions.peek(Finds(clicks))
    late = sessions.late.values()
    assert Counter(collected(late) + FOUND[clicks.id]) == Counter(of([*before, *after, ("", MARK + LAG)]) + marks)


@settings(max_examples=5, deadline=None)
@given(later, later)
def test_elements_of_both_sides_of_a_join_can_be_late(lefts: list[Event], rights: list[Event]) -> None:
    left, right = Clicks([], of(lefts)), Clicks([], of(rights), [])
    right.id = left.id
    builder = StreamBuilder()
    others = timed(right, "right", builder).map(lambda click: click.at)
    joined = timed(left, "left", builder).outer_join(
        others, lambda click, at: click, before=0 * MS, after=0 * MS, parallelism=2
    )
    joined.items().peek(Passes(left, lambda pair: pair[0] if pair[1] and pair[1].at == MARK - 1 else None))
    late = collected(joined.late)
    assert sorted(one for one in late if isinstance(one[1], Click)) == late_clicks(lefts, lambda at: at < MARK)
    assert sorted(one for one in late if isinstance(one[1], int)) == sorted(one for one in rights if one[1] < MARK)


def test_rows_of_a_table_are_never_late() -> None:
    left, table = Clicks([], [Click("ann", 5), Click("ann", MARK)]), Clicks([], [Click("ann", 1)])
    table.id = left.id
    builder = StreamBuilder()
    joined = timed(left, "left", builder).left_join_table(
        timed(table, "table", builder), lambda click, row: click, versioned=True
    )
    joined.items().peek(Passes(left, lambda pair: pair[0] if pair[1].at == MARK - 1 else None))
    assert collected(joined.late) == [("ann", Click("ann", 5))]


class Reached(KeyedProcess):
    """Emits each user with the time after that of each element, when that is reached."""

    key, event_time, max_lag = "user", "at", LAG * MS
    outputs = ["user", "time"]

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        timers.set(tup["at"] + 1)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Iterator[list[Any]]:
        yield [key, time]


class ReachedOrToo(Reached):
    late_stream = "too-late"


@pytest.mark.parametrize("bolt", [Reached, ReachedOrToo])
@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_keyed_process_of_the_program_gives_its_late_elements(bolt: type[KeyedProcess], is_keyed: bool) -> None:
    clicks = Clicks([Click("ann", 3)], [Click("bob", MARK - 1), Click("bob", MARK)])
    source: Stream[Click] = StreamBuilder().source(clicks, name="clicks")
    given = bolt()
    reached = (source.key_by(lambda click: 7) if is_keyed else source).process(given)
    reached.peek(Passes(clicks, lambda row: row.user if row.time == MARK else None))
    late = Click("bob", MARK - 1)
    assert collected(reached.late) == ([(7, late)] if is_keyed else [late])
    assert given.late_stream == bolt.late_stream


def test_late_elements_get_event_times_of_their_own() -> None:
    clicks = Clicks([], [Click("ann", 5), Click("bob", 31), Click("ann", 8)])
    counts = timed(clicks).window(Tumbling(10 * MS)).count()
    counts.items().peek(Passes(clicks, user_of_mark))
    again = counts.late.event_time(lambda click: click.at, max_lag=99 * MS).window(Tumbling(20 * MS)).count()
    found = sorted((key, window.start, window.value) for key, window in collected(again))
    assert found == [("ann", 0, 2), ("bob", 20, 1)]


def rows_of(database: Path) -> list[Any]:
    """Return what a sink has written so far."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        if connection.execute("SELECT * FROM sqlite_master WHERE name = 'late'").fetchone() is None:
            return []
        return connection.execute("SELECT key, user, at FROM late ORDER BY at").fetchall()


def test_late_elements_have_states_and_sinks_of_their_own(tmp_path: Path) -> None:
    clicks = Clicks([], [Click("ann", 5), Click("ann", 8)])
    counts = timed(clicks).window(Tumbling(10 * MS)).count()
    counts.items().peek(Passes(clicks, user_of_mark))
    late = counts.late
    late.count().print()
    counts.count()
    columns = {"key": "string", "user": "string", "at": "bigint"}
    late.sink(SqliteSink(str(tmp_path / "db"), "late", columns, key=["user", "at"]))
    builder = counts.builder
    assert {"clicks-window-count-count", "clicks-window-count-late-count"} < set(builder.topology().components)
    with LocalCluster() as cluster:
        cluster.submit(
            "t",
            builder.topology("exactly_once"),
            DURABLE | {"topology.state.provider.config": {"directory": str(tmp_path)}},
        )
        wait_until(lambda: cluster.state("t", "clicks-window-count-late-count") == {"ann": 2}, timeout=30)
        wait_until(lambda: rows_of(tmp_path / "db") == [("ann", "ann", 5), ("ann", "ann", 8)], timeout=30)


def test_nobody_asks_for_late_elements() -> None:
    clicks = Clicks([], [Click("ann", 5)])
    counts = timed(clicks).window(Tumbling(10 * MS)).count()
    counts.items().peek(Passes(clicks, user_of_mark))
    assert counts.late.operator is counts.filter(bool).late.operator  # which nobody takes
    assert "late" not in counts.builder.explain()
    with LocalCluster() as cluster:
        cluster.submit("t", counts.builder.topology())
        [(component, error)] = wait_until(lambda: cluster.errors("t"), timeout=30)
    assert component == "clicks-window-count"
    assert str(error).endswith("raise max_lag of event_time, or take the stream .late of the result")


def untimed() -> KeyedStream[int, int]:
    return StreamBuilder().source([1], name="numbers").key_by(lambda n: n)


class Sums(KeyedProcess):
    key = "key"
    outputs = ["sum"]


REFUSED: dict[str, Callable[[], Any]] = {
    "a window by count": lambda: untimed().window(CountWindow(2)).count().late,
    "a window in processing time": lambda: untimed().window(Tumbling(MS), processing_time=True).count().late,
    "a join by arrival": lambda: (s := untimed()).join_table(s.map(str), lambda a, b: a).late,
    "a bolt without event time": lambda: untimed().process(Sums()).late,
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_element_is_late_without_event_time(name: str) -> None:
    with pytest.raises(UsageError, match=r"late: no element can be late for .*, which does not follow event time"):
        REFUSED[name]()


def test_other_streams_have_no_late_elements() -> None:
    counts = timed(Clicks([], [])).window(Tumbling(MS)).count()
    with pytest.raises(AttributeError, match="a KeyedStream has no 'late': take it of the result of a window"):
        counts.map(lambda window: window.value).late  # type: ignore[attr-defined]  # noqa: B018
