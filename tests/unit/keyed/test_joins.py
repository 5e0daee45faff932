"""IntervalJoin and TableJoin on their own: examples, and what is kept how long."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from join_scene import SOURCES, Ads, Named, NamedOrNot, Versioned
from keyed_driver import Driver

from tupletree import FailedException
from tupletree.errors import TopologyError
from tupletree.testing import make_tuple
from tupletree.tuples import Tuple


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
