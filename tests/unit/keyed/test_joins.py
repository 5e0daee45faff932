"""IntervalJoin and TableJoin on their own: examples, what is kept how long, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from keyed_driver import Driver

from tupletree import FailedException, IntervalJoin, TableJoin, TopologyBuilder
from tupletree.component import Component
from tupletree.errors import TopologyError
from tupletree.testing import FeederSpout, complete_topology, make_tuple
from tupletree.tuples import Tuple

SOURCES = {"views": [1], "clicks": [2]}


class Ads(IntervalJoin):
    key, event_time, late_stream = "user", "at", "late"
    max_lag = dt.timedelta(0)
    left, right = "views", "clicks"
    before, after = dt.timedelta(milliseconds=2), dt.timedelta(milliseconds=10)
    outputs = ["user", "ad", "clicked"]

    def join(self, left: Any, right: Any) -> Iterator[list[Any]]:
        one = left or right
        yield [one["user"], one["n"], (left is not None, right is not None)]


def view(driver: Driver, at: Any, n: int = 0, user: Any = "ann", source: str = "views") -> list[list[Any]]:
    """Bring a tuple, and return the rows emitted."""
    values = {"user": user, "at": at, "n": n}
    driver.execute(make_tuple(values, component=source, task=SOURCES[source][0]))
    return driver.take()


def click(driver: Driver, at: Any, n: int = 0, user: Any = "ann") -> list[list[Any]]:
    return view(driver, at, n, user, "clicks")


def of_kind(kind: str) -> Driver:
    return Driver(type("Ads", (Ads,), {"kind": kind})(), SOURCES)


BOTH, LEFT, RIGHT = (True, True), (True, False), (False, True)


def test_both_bounds_of_the_interval_belong_to_it() -> None:
    driver = of_kind("inner")
    view(driver, 100, 1)
    assert [bool(click(driver, at)) for at in (97, 98, 100, 110, 111)] == [False, True, True, True, False]


def test_a_pair_is_joined_when_the_second_of_both_arrives() -> None:
    driver = of_kind("inner")
    assert click(driver, 105, 1) == []
    assert click(driver, 106, 2) == []
    assert [row[1] for row in view(driver, 100, 3)] == [3, 3]
    assert [row[1] for row in click(driver, 107, 4)] == [3]


def test_rows_of_a_pair_are_anchored_to_the_tuple_that_arrived_second() -> None:
    driver = of_kind("inner")
    view(driver, 100)
    second = make_tuple({"user": "ann", "at": 105, "n": 2}, component="clicks", task=2)
    driver.execute(second)
    driver.take()
    assert driver.anchors == [(second,)]


def reach(driver: Driver, at: int) -> list[list[Any]]:
    """Raise the watermark, and return the rows emitted for the keys of other tuples."""
    rows = view(driver, at, user="clock") + click(driver, at, user="clock")
    return [row for row in rows if row[0] != "clock"]


@pytest.mark.parametrize(
    ("kind", "expected"), [("inner", []), ("left", [[1, LEFT]]), ("outer", [[1, LEFT], [2, RIGHT]])]
)
def test_a_tuple_without_a_partner_is_joined_with_none_once_no_partner_can_come(kind: str, expected: Any) -> None:
    driver = of_kind(kind)
    view(driver, 100, 1, user="ann")
    click(driver, 100, 2, user="bob")
    view(driver, 100, 3, user="cid")
    click(driver, 109, 4, user="cid")
    found = [(at, row[1:]) for at in (102, 103, 110, 111, 130) for row in reach(driver, at)]
    assert sorted(found) == sorted((111 if which == LEFT else 103, [n, which]) for n, which in expected)
    assert keys(driver) == {"clock"}


def keys(driver: Driver) -> set[Any]:
    """The keys that the state has anything of."""
    driver.checkpoint()
    entries = [entry for entry in driver.state if entry != ("$progress",)]
    return {entry[1] if isinstance(entry, tuple) and entry[0] != "$key" else entry for entry in entries}


def test_a_late_tuple_is_joined_with_nothing() -> None:
    driver = of_kind("outer")
    view(driver, 100, 1)
    reach(driver, 105)
    driver.take()
    assert click(driver, 104) == []
    assert [row[0]["at"] for row in driver.recorder.rows("late")] == [104]
    assert [row[1:] for row in reach(driver, 111)] == [[1, LEFT]]


def test_with_a_negative_bound_a_partner_must_be_that_much_later() -> None:
    class Delayed(Ads):
        before, after = dt.timedelta(milliseconds=-5), dt.timedelta(milliseconds=10)
        kind = "outer"

    driver = Driver(Delayed(), SOURCES)
    view(driver, 100, 1)
    assert click(driver, 104, 2) == [["ann", 2, RIGHT]]  # the watermark is above the times of all its partners
    assert [click(driver, at, 3) for at in (105, 110)] == [[["ann", 1, BOTH]]] * 2
    assert click(driver, 111, 4) == []


def test_a_key_of_several_fields_and_times_with_a_zone() -> None:
    class ByBoth(Ads):
        key = ("user", "n")

    driver = Driver(ByBoth(), SOURCES)
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    view(driver, at, 1)
    assert click(driver, at, 2) == []
    assert click(driver, at + dt.timedelta(milliseconds=10), 1) == [["ann", 1, BOTH]]
    driver.restart()
    assert click(driver, at + dt.timedelta(milliseconds=10), 1) == [["ann", 1, BOTH]]


def test_keep_decides_what_is_passed_to_join() -> None:
    class Kept(Ads):
        outputs = ["left", "right"]

        def keep(self, tup: Tuple) -> int:
            return int(tup["n"])

        def join(self, left: int, right: int) -> None:
            self.collector.emit([left, right])

    driver = Driver(Kept(), SOURCES)
    view(driver, 100, 1)
    assert click(driver, 100, 2) == [[1, 2]]


def test_rows_that_join_returns_and_does_not_yield_are_refused() -> None:
    class Returning(Ads):
        def join(self, left: Any, right: Any) -> Any:
            return [["ann", 1, True]]

    driver = Driver(Returning(), SOURCES)
    view(driver, 100)
    with pytest.raises(
        TopologyError, match=r"Returning\.join returned a list; a returned value is ignored; yield rows"
    ):
        click(driver, 100)


def test_a_tuple_that_join_fails_is_not_kept() -> None:
    class Refusing(Ads):
        def join(self, left: Any, right: Any) -> Iterator[list[Any]]:
            if right["n"] == 13:
                raise FailedException("not this one")
            yield from super().join(left, right)

    driver = Driver(Refusing(), SOURCES)
    view(driver, 100)
    with pytest.raises(FailedException, match="not this one"):
        click(driver, 100, 13)
    assert len(view(driver, 100)) == 0
    assert len(click(driver, 100, 1)) == 2


def test_an_event_time_that_no_timer_can_have_fails_the_tuple() -> None:
    driver = of_kind("inner")
    with pytest.raises(FailedException, match="is 1767268800000000000; a whole number of milliseconds"):
        view(driver, 1_767_268_800_000_000_000)


def test_a_key_with_many_tuples_has_them_in_several_entries_and_one_timer() -> None:
    driver = of_kind("outer")
    for n in range(300):
        view(driver, 100, n)
    driver.restart()
    assert len([entry for entry in driver.state if isinstance(entry, tuple) and entry[0] == "$left"]) == 3
    assert len(click(driver, 100)) == 300
    assert driver.bolt._progress is not None and len(driver.bolt._progress.events) == 1
    driver.restart()
    assert reach(driver, 200) == []
    assert keys(driver) == {"clock"}


class Named(TableJoin):
    key = "user"
    stream, table = "views", "clicks"
    outputs = ["n", "row"]

    def join(self, left: Any, row: Any) -> Iterator[list[Any]]:
        yield [left["n"], row and row["n"]]

    def deleted(self, tup: Tuple) -> bool:
        return bool(tup["n"] == -1)


class NamedOrNot(Named):
    kind = "left"


class Versioned(NamedOrNot):
    event_time, max_lag, late_stream = "at", dt.timedelta(milliseconds=3), "late"
    versioned = True


def test_a_tuple_is_joined_with_the_newest_row_that_has_arrived() -> None:
    driver = Driver(Named(), SOURCES)
    assert view(driver, 9, 1) == []
    assert click(driver, 9, 10) == []
    assert view(driver, 1, 2) == [[2, 10]]
    click(driver, 5, 11)
    driver.restart()
    assert view(driver, 9, 3) == [[3, 11]]
    assert view(driver, 9, 4, user="bob") == []
    click(driver, 0, -1)
    assert view(driver, 9, 5) == []
    assert keys(driver) == set()


def test_a_left_join_with_a_table_has_none_in_place_of_a_row() -> None:
    driver = Driver(NamedOrNot(), SOURCES)
    assert view(driver, 0, 1) == [[1, None]]
    click(driver, 0, 10)
    click(driver, 0, -1)
    assert view(driver, 0, 2) == [[2, None]]


def test_a_row_by_arrival_expires_when_it_was_not_sent_for_its_time_to_live() -> None:
    class Forgetting(NamedOrNot):
        ttl = dt.timedelta(seconds=1)

    driver = Driver(Forgetting(), SOURCES)
    click(driver, 0, 10)
    driver.tick(999)
    assert view(driver, 0, 1) == [[1, 10]]
    driver.tick(1_000)
    assert view(driver, 0, 2) == [[2, None]]


def test_a_tuple_waits_for_the_version_that_was_valid_at_its_time() -> None:
    driver = Driver(Versioned(), SOURCES)
    assert view(driver, 100, 1) == view(driver, 99, 2) == view(driver, 101, 3) == []
    assert click(driver, 100, 10) == [] and click(driver, 98, 11) == []
    assert view(driver, 104, 4) == []
    assert click(driver, 110, 12) == [[2, 11], [1, 10]]  # the watermark is 101
    assert view(driver, 112, 5) == [[3, 10], [4, 10]]
    assert view(driver, 120, 6) == []
    assert click(driver, 120, 13) == [[5, 12]]
    driver.restart()
    assert view(driver, 124, 7) + click(driver, 124, 14) == [[6, 13]]


def test_a_late_row_of_a_table_counts_for_the_tuples_joined_from_then_on() -> None:
    driver = Driver(Versioned(), SOURCES)
    view(driver, 100, 1)
    assert reach(driver, 110) == [[1, None]]
    click(driver, 50, 10)
    view(driver, 111, 2)
    view(driver, 60, 3)
    assert [row[0]["n"] for row in driver.recorder.rows("late")] == [3]
    reach(driver, 120)
    assert [row for row in driver.recorder.rows() if row[0] == 2] == [[2, 10]]


def test_only_the_newest_version_is_kept_behind_the_watermark_and_no_deletion() -> None:
    driver = Driver(Versioned(), SOURCES)
    for at in range(100, 110):
        click(driver, at, at)
    click(driver, 109, 7)  # another row of the same time
    click(driver, 105, -1, user="bob")
    view(driver, 111)
    driver.checkpoint()
    assert driver.value("ann")[1][2][0] == [106, 107, 108, 109]
    reach(driver, 113)
    assert driver.value("ann")[1][2][:2] == [[109], [{"user": "ann", "at": 109, "n": 7}]]
    assert keys(driver) == {"ann", "clock"}


def join_of(sides: Any, tasks: int = 2, **groupings: Any) -> None:
    """Build a topology of a join with inputs by groupings."""
    builder = TopologyBuilder()
    for source in ("views", "clicks", "orders"):
        builder.set_spout(source, FeederSpout(["user", "at", "n"]))
    declarer = builder.set_bolt("join", sides, tasks)
    for source, grouping in groupings.items():
        grouping(declarer, source)
    builder.create_topology()


def by(*fields: str) -> Any:
    return lambda declarer, source: declarer.fields_grouping(source, fields)


def to_one(declarer: Any, source: str) -> None:
    declarer.global_grouping(source)


@pytest.mark.parametrize("join", [Ads, Named, Versioned])
def test_a_join_with_exactly_its_two_inputs_is_built(join: type[Component]) -> None:
    join_of(join(), views=by("user"), clicks=by("user"))
    join_of(join(), views=to_one, clicks=to_one)
    join_of(join(), 1, views=by("user"), clicks=to_one)


@pytest.mark.parametrize(
    ("groupings", "fault"),
    [
        ({"views": by("user")}, "right is 'clicks', which is not an input of the bolt: give it a grouping"),
        ({"clicks": by("user")}, "left is 'views', which is not an input of the bolt: give it a grouping"),
        (
            {"views": by("user"), "clicks": by("user"), "orders": by("user")},
            "'orders' is an input, and the join has only 'views' and 'clicks'",
        ),
        (
            {"views": by("user"), "clicks": to_one},
            "fields grouping by 'user' on 'views' and global grouping on 'clicks' send tuples of one key to several "
            "tasks: use a fields grouping by 'user' on each",
        ),
        (
            {"views": by("user"), "clicks": by("n")},
            "fields grouping by 'n' on 'clicks' sends tuples of one key to several tasks: use a fields grouping by "
            "'user'",
        ),
    ],
)
def test_other_inputs_are_refused_when_the_topology_is_built(groupings: dict[str, Any], fault: str) -> None:
    with pytest.raises(TopologyError) as refused:
        join_of(Ads(), **groupings)
    assert str(refused.value) == f"bolt 'join': {fault}"


@pytest.mark.parametrize(
    ("base", "attributes", "fault"),
    [
        (Ads, {"left": ""}, "left must be the id of a component, or (component, stream), not ''"),
        (
            Ads,
            {"right": ("clicks", 1)},
            "right must be the id of a component, or (component, stream), not ('clicks', 1)",
        ),
        (Ads, {"right": ("views", "default")}, "left and right are the same stream, and a join needs two"),
        (Ads, {"kind": "right"}, "kind must be 'inner', 'left' or 'outer', not 'right'"),
        (Named, {"kind": "outer"}, "kind must be 'inner' or 'left', not 'outer'"),
        (Ads, {"before": None}, "before is missing: write before = timedelta(...) and after = timedelta(...)"),
        (Ads, {"after": 5}, "after must be a timedelta, not 5"),
        (Ads, {"after": dt.timedelta(-1)}, "no time is from 0:00:00.002000 before to -1 day, 0:00:00 after the left"),
        (Ads, {"event_time": None, "max_lag": None, "late_stream": None}, "event_time is missing: set it to the name"),
        (Ads, {"ttl": dt.timedelta(1)}, "ttl is not for an IntervalJoin"),
        (Versioned, {"ttl": dt.timedelta(1)}, "ttl is not for a versioned table"),
        (Versioned, {"versioned": dt.timedelta(1)}, "versioned must be True or False, not datetime.timedelta(days=1)"),
        (Versioned, {"event_time": None, "max_lag": None, "late_stream": None}, "versioned needs it"),
        (Named, {"event_time": "at", "max_lag": dt.timedelta(1)}, "event_time needs versioned = True"),
        (Ads, {"default_factory": int}, "default_factory makes values of a state"),
        (Ads, {"max_lag": None}, "max_lag is missing"),
        (Ads, {"on_tuple": lambda *_: None}, "Faulty.on_tuple is never called: a join has its own; define join"),
        (Ads, {"join": IntervalJoin.join}, "Faulty has no join(left, right)"),
        (Named, {"join": TableJoin.join}, "Faulty has no join(left, row)"),
        (Ads, {"join": lambda self, left: None}, "Faulty.join takes (left)"),
    ],
)
def test_faulty_settings_are_refused_when_the_topology_is_built(
    base: type[Any], attributes: dict[str, Any], fault: str
) -> None:
    faulty = type("Faulty", (base,), attributes)
    with pytest.raises(TopologyError) as refused:
        join_of(faulty(), views=by("user"), clicks=by("user"))
    assert "bolt 'join': " in str(refused.value) and fault in str(refused.value)


def test_a_side_may_be_any_stream_of_a_component() -> None:
    class Twice(FeederSpout):
        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare_stream("views", ["user", "at", "n"])
            declarer.declare_stream("clicks", ["user", "at", "n"])

    class OfOne(Ads):
        left, right = ("site", "views"), ("site", "clicks")

    builder = TopologyBuilder()
    builder.set_spout("site", Twice(["user", "at", "n"]))
    declarer = builder.set_bolt("join", OfOne(), 2).fields_grouping("site", "user", "views")
    with pytest.raises(TopologyError, match="right is stream 'clicks' of 'site', which is not an input"):
        builder.create_topology()
    declarer.fields_grouping("site", "user", "clicks")
    builder.create_topology()


def test_a_side_may_be_several_streams() -> None:
    class OfAll(Ads):
        left = [("views", "default"), ("more", "default")]

    builder = TopologyBuilder()
    for name in ("views", "more", "clicks"):
        builder.set_spout(name, FeederSpout(["user", "at", "n"]))
    declarer = builder.set_bolt("join", OfAll(), 2).fields_grouping("views", "user").fields_grouping("clicks", "user")
    with pytest.raises(TopologyError, match="left is 'more', which is not an input"):
        builder.create_topology()
    declarer.fields_grouping("more", "user")
    rows = {"views": [["ann", 10, 1]], "more": [["bob", 10, 2]], "clicks": [["ann", 11, 3], ["bob", 11, 4]]}
    joined = complete_topology(builder.create_topology(), rows)["join"]
    assert sorted(row[0] for row in joined) == ["ann", "bob"]
