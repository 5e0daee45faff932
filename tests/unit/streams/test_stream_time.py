"""Windows and joins in programs of streams, against straightforward computations over the same elements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree import Backoff, CountWindow, Session, Sliding, Tumbling
from tupletree.errors import TopologyError, UsageError
from tupletree.streams import KeyedStream, Stream, StreamBuilder, Windowed

MS = timedelta(milliseconds=1)
END = 1_000_000
"""The time of elements that end all windows; they are left out of the results."""


class Click(NamedTuple):
    user: str
    at: int
    page: int


class User(NamedTuple):
    user: str
    at: int
    city: str


CLICKS = [
    Click(user, at, at % 3) for at, user in [(5, "ann"), (3, "bob"), (14, "ann"), (12, "ann"), (31, "bob"), (33, "ann")]
]
ENDS = [Click(user, END, 0) for user in ("ann", "bob")]


def clicks(builder: StreamBuilder, elements: list[Click], lag: int = 5) -> KeyedStream[str, Click]:
    stream = builder.source([*elements, *ENDS], name="clicks").event_time(lambda click: click.at, max_lag=lag * MS)
    return stream.key_by(lambda click: click.user)


def collected(stream: Stream[Any]) -> list[Any]:
    return stream.collect(1_000_000, seconds=60)


def windows(stream: KeyedStream[str, Windowed[Any]]) -> list[tuple[str, int, int, Any]]:
    """Return (key, start, end, value) of each window, without those of END."""
    results = [(key, window.start, window.end, window.value) for key, window in collected(stream)]
    return sorted(one for one in results if one[1] < END - 100)


def test_tumbling_windows_are_counted() -> None:
    counted = clicks(StreamBuilder(parallelism=2), CLICKS).window(Tumbling(10 * MS)).count()
    expected: dict[tuple[str, int], int] = defaultdict(int)
    for click in CLICKS:
        expected[click.user, click.at // 10 * 10] += 1
    assert windows(counted) == sorted((user, start, start + 10, n) for (user, start), n in expected.items())


FOLDS: dict[str, tuple[Callable[[KeyedStream[str, int]], Any], Callable[[list[int]], Any]]] = {
    "count": (lambda s: s.window(Sliding(20 * MS, every=10 * MS)).count(), len),
    "sum": (lambda s: s.window(Sliding(20 * MS, every=10 * MS)).sum(), sum),
    "reduce": (lambda s: s.window(Sliding(20 * MS, every=10 * MS)).reduce(max), max),
    "to_list": (lambda s: s.window(Sliding(20 * MS, every=10 * MS)).to_list().map(sort_value), sorted),
    "aggregate": (
        lambda s: s.window(Sliding(20 * MS, every=10 * MS)).aggregate(lambda: 100, lambda a, v: a + v),
        lambda values: 100 + sum(values),
    ),
}


def sort_value(window: Windowed[list[int]]) -> Windowed[list[int]]:
    return window._replace(value=sorted(window.value))


@pytest.mark.parametrize("name", FOLDS)
def test_sliding_windows_have_the_aggregates_of_their_elements(name: str) -> None:
    fold, expected = FOLDS[name]
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for click in CLICKS:
        for start in range(-10, 50, 10):
            if start <= click.at < start + 20:
                groups[click.user, start].append(click.page)
    stream = fold(clicks(StreamBuilder(), CLICKS).map(lambda click: click.page))
    assert windows(stream) == sorted(
        (user, start, start + 20, expected(values)) for (user, start), values in groups.items()
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(0, 200)), min_size=1, max_size=30))
def test_sessions_are_those_of_sorted_times(events: list[tuple[str, int]]) -> None:
    expected = []
    for user in ("ann", "bob"):
        times = sorted(at for one, at in events if one == user)
        groups: list[list[int]] = []
        for at in times:
            if groups and at - groups[-1][-1] < 10:
                groups[-1].append(at)
            else:
                groups.append([at])
        expected += [(user, group[0], group[-1] + 10, len(group)) for group in groups]
    elements = [Click(user, at, 0) for user, at in events]
    counted = clicks(StreamBuilder(), elements, lag=200).window(Session(10 * MS)).count()
    assert windows(counted) == sorted(expected)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_at_the_end_of_all_sources_all_windows_are_emitted(parallelism: int) -> None:
    builder = StreamBuilder(parallelism=parallelism)
    stream = builder.source(CLICKS, name="clicks").event_time(lambda click: click.at, max_lag=timedelta(hours=1))
    per_user = stream.key_by(lambda click: click.user).window(Session(timedelta(days=1))).count()
    again = per_user.items().filter(lambda pair: True, parallelism=2).key_by(lambda pair: "all")
    counted = again.map(lambda pair: pair[1].value).window(Tumbling(timedelta(days=10))).sum()
    assert [window.value for _, window in collected(counted)] == [len(CLICKS)]


async def awaited(click: Click) -> Click:
    return click


def stays(click: Click) -> Click:
    return click


TIMELESS: dict[str, Callable[[Stream[Click]], Stream[Click]]] = {
    "map_async": lambda stream: stream.map_async(awaited),
    "update_state": lambda stream: stream.key_by(lambda click: 0).update_state(lambda state, click: (state, click)),
    "join_table": lambda stream: stream.key_by(lambda click: click.user).left_join_table(
        stream.filter(lambda click: False).key_by(lambda click: ""), lambda click, row: click
    ),
    "a window": lambda stream: (
        stream.key_by(lambda click: click.at).window(CountWindow(1)).reduce(max).map(lambda window: window.value)
    ),
}


@pytest.mark.parametrize("name", TIMELESS)
def test_results_without_event_times_may_get_some(name: str) -> None:
    source = StreamBuilder(parallelism=2).source(CLICKS, name="clicks")
    results = TIMELESS[name](source).map(stays).event_time(lambda click: click.at, max_lag=50 * MS)
    counted = results.key_by(lambda click: click.user).window(Tumbling(10 * MS)).count()
    expected = Counter((click.user, click.at // 10 * 10) for click in CLICKS)
    assert windows(counted) == sorted((user, start, start + 10, n) for (user, start), n in expected.items())


def test_a_key_may_be_a_tuple() -> None:
    source = StreamBuilder(parallelism=2).source(CLICKS, name="clicks")
    timed = source.event_time(lambda click: click.at, max_lag=99 * MS)
    counted = timed.key_by(lambda click: (click.user, click.page)).window(Tumbling(100 * MS)).count()
    found = {key: window.value for key, window in collected(counted)}
    assert found == {(c.user, c.page): sum(o.user == c.user and o.page == c.page for o in CLICKS) for c in CLICKS}


def test_count_windows_need_no_time() -> None:
    keyed = StreamBuilder().source(range(10), name="numbers").key_by(lambda n: n % 2)
    results = collected(keyed.window(CountWindow(2)).to_list())
    assert sorted((key, window.value) for key, window in results) == [
        (0, [0, 2]), (0, [4, 6]), (1, [1, 3]), (1, [5, 7])
    ]  # fmt: skip


def test_windows_of_windows() -> None:
    per_user = clicks(StreamBuilder(), CLICKS).window(Tumbling(10 * MS)).count().map(lambda window: window.value)
    total = per_user.items().key_by(lambda pair: "all").map(lambda pair: pair[1]).window(Tumbling(40 * MS)).sum()
    assert windows(total)[:1] == [("all", 0, 40, len(CLICKS))]


def users(builder: StreamBuilder, elements: list[User]) -> KeyedStream[str, User]:
    ends = [User(user, END, "end") for user in ("ann", "bob", "cyd")]
    stream = builder.source([*elements, *ends], name="users").event_time(lambda user: user.at, max_lag=5 * MS)
    return stream.key_by(lambda user: user.user)


USERS = [User("ann", 1, "Rome"), User("cyd", 4, "Lima"), User("ann", 13, "Oslo"), User("bob", 30, "Kyiv")]


def near(left: Click, right: User) -> bool:
    return left.user == right.user and left.at - 5 <= right.at <= left.at + 10


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
def test_streams_are_joined_within_an_interval(kind: str) -> None:
    builder = StreamBuilder(parallelism=2)
    left, right = clicks(builder, CLICKS), users(builder, USERS)

    def pair(click: Click | None, user: User | None) -> tuple[int | None, str | None]:
        return click and click.at, user and user.city

    joined = getattr(left, kind)(right, pair, before=5 * MS, after=10 * MS)
    results = [(key, *one) for key, one in collected(joined) if END not in one and "end" not in one]
    expected: list[Any] = [(c.user, c.at, u.city) for c in CLICKS for u in USERS if near(c, u)]
    if kind != "join":
        expected += [(c.user, c.at, None) for c in CLICKS if not any(near(c, u) for u in USERS)]
    if kind == "outer_join":
        expected += [(u.user, None, u.city) for u in USERS if not any(near(c, u) for c in CLICKS)]
    assert sorted(results, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("is_left", [False, True])
def test_a_stream_is_joined_with_the_versions_of_a_table(is_left: bool) -> None:
    builder = StreamBuilder(parallelism=2)
    left, table = clicks(builder, CLICKS), users(builder, USERS)

    def pair(click: Click, user: User | None) -> tuple[int, str | None]:
        return click.at, user and user.city

    joined = (left.left_join_table if is_left else left.join_table)(table, pair, versioned=True)
    results = [(key, *one) for key, one in collected(joined) if one[0] != END]
    expected = []
    for click in CLICKS:
        valid = [user for user in USERS if user.user == click.user and user.at <= click.at]
        if valid or is_left:
            expected.append((click.user, click.at, max(valid, key=lambda user: user.at).city if valid else None))
    assert sorted(results, key=str) == sorted(expected, key=str)


def test_streams_of_one_component_do_not_overtake_each_other_in_time() -> None:
    events = [("user" if n % 100 == 0 else "click", n) for n in range(3000)]
    source = StreamBuilder(parallelism=2).source(events, name="events").map(lambda event: event, parallelism=1)
    timed = source.event_time(lambda event: event[1], max_lag=timedelta(0))
    rows, elements = timed.branch(lambda event: event[0] == "user", lambda event: True)
    table = rows.key_by(lambda event: event[1] // 500 % 2).map(lambda event: event[1])
    joined = elements.key_by(lambda event: event[1] // 500 % 2).join_table(
        table, lambda event, row: (event[1], row), versioned=True
    )
    assert sorted(pair for _, pair in collected(joined)) == [(n, n // 100 * 100) for n in range(3000) if n % 100]


def test_an_element_with_a_time_in_nanoseconds_fails_alone(capfd: pytest.CaptureFixture[str]) -> None:
    broken = Click("ann", 1_700_000_000 * 10**9, 0)
    builder = StreamBuilder()
    once = Backoff(first_s=0.01, max_s=0.01, factor=1, max_attempts=1)
    stream = builder.source([*CLICKS[:3], broken, *CLICKS[3:]], name="clicks", retry=once)
    timed = stream.event_time(lambda click: click.at, max_lag=5 * MS).key_by(lambda click: click.user)
    counted = timed.window(Tumbling(100 * MS)).count()
    assert sorted((key, window.value) for key, window in collected(counted)) == [("ann", 4), ("bob", 2)]
    assert "event_time returned 1700000000000000000; a whole number of milliseconds" in capfd.readouterr().err


def test_times_in_seconds_are_reported_once(capfd: pytest.CaptureFixture[str]) -> None:
    timed = StreamBuilder().source([1_795_469_960, 1_795_469_961]).event_time(int, max_lag=5 * MS)
    counted = timed.key_by(lambda at: "all").window(Tumbling(10 * MS)).count()
    assert [window.value for _, window in collected(counted)] == [2]
    assert capfd.readouterr().err.count("looks like seconds: times are milliseconds since 1970") == 1


def test_a_side_of_a_join_may_be_merged_from_several_components() -> None:
    builder = StreamBuilder()
    left = clicks(builder, CLICKS)
    more = builder.source([Click("cyd", 2, 9), Click("cyd", END, 0)], name="more")
    both = left.merge(more.event_time(lambda click: click.at, max_lag=5 * MS).key_by(lambda click: click.user))
    joined = both.join(users(builder, USERS), lambda click, user: (click.at, user.city), before=5 * MS, after=10 * MS)
    assert ("cyd", (2, "Lima")) in collected(joined)


def test_a_table_of_the_newest_rows_is_joined_as_it_comes() -> None:
    builder = StreamBuilder()
    table = builder.source([("a", 1)], name="table").key_by(lambda row: row[0]).map(lambda row: row[1])
    keyed = builder.source(["a", "b"], name="stream").key_by(lambda key: key)
    joined = keyed.left_join_table(table, lambda left, row: (left, row))
    assert sorted(key for key, _ in collected(joined)) == ["a", "b"]


def numbers() -> KeyedStream[int, int]:
    return StreamBuilder().source([1, 2, 3], name="numbers").key_by(lambda n: n)


def timed() -> KeyedStream[int, int]:
    return numbers().event_time(lambda n: n, max_lag=MS)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "windows without times": (
        lambda: numbers().window(Tumbling(MS)).count(),
        r"window-count of a window needs event times: write stream.event_time\(f, max_lag=timedelta\(…\)\) before it",
    ),
    "a join without times": (
        lambda: (s := numbers()).join(s.map(str), lambda a, b: a, before=MS, after=MS),
        "join needs event times: .*, on both streams",
    ),
    "a join with itself": (
        lambda: (s := timed()).join(s, lambda a, b: a, before=MS, after=MS),
        "join takes two streams, and both are the same one",
    ),
    "a join without keys": (
        lambda: (s := timed()).join_table(s.items(), lambda a, b: a),  # type: ignore[arg-type]
        r"join_table takes a stream with keys: write other.key_by\(f\)",
    ),
    "no stream": (lambda: timed().join_table(3, lambda a, b: a), "join_table takes streams, not 3"),  # type: ignore[arg-type]
    "a join of one argument": (
        lambda: (s := timed()).join(s.map(str), lambda a: a, before=MS, after=MS),  # type: ignore[arg-type,misc]
        "join calls .* with two arguments, and it takes",
    ),
    "a session without merge": (
        timed().window(Session(MS)).aggregate(list, lambda a, v: a).builder.topology,
        r"is a Session, and needs merge\(first, second\)",
    ),
    "no such setting": (
        lambda: timed().window(Tumbling(MS), lateness=MS).count(),  # type: ignore[call-arg]
        "window has no setting lateness; it has allowed_lateness, early_count, early_every",
    ),
    "a lag that is text": (
        lambda: numbers().event_time(lambda n: n, max_lag="10s"),  # type: ignore[arg-type]
        "^event_time: max_lag must be a timedelta of at least 0 ms, not '10s'",
    ),
    "a gap that is text": (
        lambda: timed().window(Session("30s")).count(),  # type: ignore[arg-type]
        "^Session: gap must be a timedelta of at least 1 ms, not '30s'",
    ),
    "a lateness that is a number": (
        lambda: timed().window(Tumbling(MS), allowed_lateness=5).count(),  # type: ignore[arg-type]
        "^window: allowed_lateness must be a timedelta of at least 0 ms, not 5",
    ),
    "no window": (timed().window(5).count().builder.topology, "bolt 'numbers-window-count': window"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused_in_one_sentence(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises((UsageError, TopologyError), match=message):
        make()


def test_of_two_event_times_the_last_one_counts() -> None:
    """The first ones are far ahead. Everyone waits for the last ones, of which none is late."""
    times = StreamBuilder().source(list(range(0, 20_000, 2)), name="times")
    timed = times.event_time(lambda at: at + END, max_lag=0 * MS).event_time(lambda at: at, max_lag=0 * MS)
    counted = timed.key_by(lambda at: "key").window(Tumbling(1_000 * MS)).count()
    assert windows(counted) == [("key", start, start + 1_000, 500) for start in range(0, 20_000, 1_000)]


def test_an_operator_may_have_the_name_of_the_stream_of_progress() -> None:
    elements = clicks(StreamBuilder(), CLICKS)
    counts = elements.window(Tumbling(10 * MS)).count()
    sums = elements.map(lambda click: click.page).sum(name="watermarks")
    assert len(windows(counts)) == 5
    assert dict(collected(sums)) == {"ann": 4, "bob": 1}


def growing() -> Iterator[int | None]:
    """Yield numbers, and then nothing for good: the source is not at its end."""
    yield from range(100)
    while True:
        yield None


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("kind", ["join", "table", "merge"])
def test_a_silent_stream_with_an_idle_timeout_holds_back_no_stream_without(kind: str, parallelism: int) -> None:
    builder = StreamBuilder(parallelism=parallelism)

    def timed(source: Any, name: str, timeout: timedelta | None) -> KeyedStream[int, int]:
        times = builder.source(source, name=name).event_time(int, max_lag=0 * MS, idle_timeout=timeout)
        return times.key_by(lambda number: 0)

    numbers, silent = timed(growing, "numbers", None), timed([0], "silent", 300 * MS)
    joined: dict[str, Callable[[], Stream[Any]]] = {
        "join": lambda: numbers.left_join(silent, lambda one, other: one, before=0 * MS, after=MS),
        "table": lambda: numbers.left_join_table(silent, lambda one, row: one, versioned=True),
        "merge": lambda: numbers.merge(silent).map(int, parallelism=3).window(Tumbling(MS)).count(),
    }
    assert len(joined[kind]().collect(90, seconds=60)) == 90
