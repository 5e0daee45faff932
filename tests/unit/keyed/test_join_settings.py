"""Inputs and settings of IntervalJoin and TableJoin: what a topology is built with, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from join_scene import Ads, Named, Versioned

from tupletree import IntervalJoin, TableJoin, TopologyBuilder
from tupletree.component import Component
from tupletree.errors import TopologyError
from tupletree.testing import FeederSpout, complete_topology


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
