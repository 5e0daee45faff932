"""Trees from events: what every worker wrote, joined; what was lost, doubled, shuffled, or told by wrong clocks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tupletree.cli.trace import _SETTLE_S, _collect
from tupletree.cli.tracing import Hop, Tree, join

ROOT = "00000000000003e9"
BEGAN_S = 1_700_000_000.0


def events(ahead: dict[str, float] | None = None) -> list[dict[str, Any]]:
    """A line of three words: spout task 1 on machine a, split task 2 on b, count tasks 3 on a and 4 on b."""

    def event(kind: str, worker: str, ms: float, **facts: Any) -> dict[str, Any]:
        shift_s = (ahead or {}).get(worker[0], 0.0)
        if "until" in facts:
            facts["until"] = BEGAN_S + shift_s + facts["until"] / 1000
        return {"at": BEGAN_S + shift_s + ms / 1000, "kind": kind, "root": ROOT, "worker": worker, **facts}

    found = [
        event("begin", "a:1", 0, component="lines", task=1, message="7"),
        event("send", "a:1", 1, edge="e0", component="lines", task=1, stream="default", target=2),
        event("receive", "b:2", 3, edge="e0", target=2),
        event(
            "execute",
            "b:2",
            5,
            edge="e0",
            component="split",
            task=2,
            source="lines",
            until=6,
            children=["e1", "e2", "e3"],
        ),
        event("ack", "b:2", 6, component="split", task=2),
        event("verdict", "a:1", 20, component="lines", task=1, verdict="acked"),
    ]
    for edge, task, worker, arrived, begun in (
        ("e1", 3, "a:1", 9, 10),
        ("e2", 4, "b:2", None, 8),
        ("e3", 3, "a:1", 9, 12),
    ):
        found.append(event("send", "b:2", 7, edge=edge, component="split", task=2, stream="default", target=task))
        if arrived is not None:
            found.append(event("receive", worker, arrived, edge=edge, target=task))
        facts = {
            "edge": edge,
            "component": "count",
            "task": task,
            "source": "split",
            "until": begun + 1,
            "children": [],
        }
        found.append(event("execute", worker, begun, **facts))
        found.append(event("ack", worker, begun + 1, component="count", task=task))
    return found


def shape(hops: list[Hop]) -> list[Any]:
    return [(hop.edge, hop.component, hop.task, hop.outcome, shape(hop.children)) for hop in hops]


WHOLE = [
    (
        "e0",
        "split",
        2,
        "acked",
        [("e1", "count", 3, "acked", []), ("e2", "count", 4, "acked", []), ("e3", "count", 3, "acked", [])],
    )
]


def only(found: list[dict[str, Any]]) -> Tree:
    [tree] = join(found)
    return tree


def test_a_whole_tree() -> None:
    tree = only(events())
    assert (tree.component, tree.task, tree.message, tree.verdict, tree.worker) == ("lines", 1, "7", "acked", "a:1")
    assert round(tree.took_s or 0, 6) == 0.02
    assert tree.is_whole
    assert shape(tree.hops) == WHOLE
    assert tree.shifts_s == {}
    last = tree.all_hops()[-1]
    assert [round((at or 0) - BEGAN_S, 4) for at in last.times()] == [0.007, 0.009, 0.012, 0.013, 0.013]


def test_a_hop_that_has_not_begun_is_named_by_its_task() -> None:
    tree = only(
        [one for one in events() if one["kind"] in ("begin", "send", "verdict") and one.get("edge") in (None, "e0")]
    )
    assert [(hop.component, hop.task) for hop in tree.all_hops()] == [("", 2)]
    tree.name_hops({1: "lines", 2: "split"})
    assert [(hop.component, hop.task) for hop in tree.all_hops()] == [("split", 2)]


@given(st.integers(0, 10_000), st.lists(st.integers(0, 19), max_size=8))
def test_order_and_repetition_change_nothing(seed: int, again: list[int]) -> None:
    given_ = events()
    doubled = given_ + [dict(given_[number % len(given_)]) for number in again]
    random.Random(seed).shuffle(doubled)
    assert join(doubled) == join(given_)


@given(st.sets(st.integers(0, 16)))
def test_whatever_is_lost_the_rest_makes_a_tree_of_the_same_shape(lost: set[int]) -> None:
    whole = events()
    left = [event for number, event in enumerate(whole) if number not in lost]
    found = join(left)
    assert len(found) == (1 if left else 0)
    for tree in found:
        hops = tree.all_hops()
        assert {hop.edge for hop in hops} == {event["edge"] for event in left if "edge" in event}
        assert len({hop.edge for hop in hops}) == len(hops), "no hop is shown twice"
        executed = {event["edge"] for event in left if event["kind"] == "execute"}
        assert {hop.edge for hop in hops if hop.begun_s is not None} == executed
        below = {child.edge: hop.edge for hop in hops for child in hop.children}
        assert set(below.values()) <= {"e0"}
        assert ("e0" not in executed) <= (not below), "without its execution nobody knows what is below"


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["at", "kind", "root", "edge", "children", "task", "target", "until", "worker", "component"]
            ),
            st.one_of(
                st.sampled_from(
                    [ROOT, "e0", "e1", "a:1", "b:2", "execute", "send", "receive", "ack", "begin", "verdict"]
                ),
                st.integers(-2, 4),
                st.floats(),
                st.none(),
                st.lists(st.sampled_from(["e0", "e1", 3, None])),
            ),
        ),
        max_size=30,
    )
)
def test_garbage_is_passed_over(garbage: list[dict[str, Any]]) -> None:
    assert {"e0", "e1", "e2", "e3"} <= {hop.edge for tree in join([*events(), *garbage]) for hop in tree.all_hops()}


def test_edges_in_a_circle_are_all_shown_once() -> None:
    def execute(edge: str, child: str) -> dict[str, Any]:
        return {
            "at": 1.0,
            "kind": "execute",
            "root": ROOT,
            "edge": edge,
            "children": [child],
            "task": 1,
            "worker": "a:1",
        }

    tree = only([execute("x", "y"), execute("y", "z"), execute("z", "x"), execute("s", "s")])
    assert sorted(hop.edge for hop in tree.all_hops()) == ["s", "x", "y", "z"]


def test_a_tuple_emitted_later_hangs_below_the_latest_execution_of_its_task() -> None:
    found = [event for event in events() if event["kind"] != "execute" or event["task"] != 2]
    held = next(event for event in events() if event["kind"] == "execute" and event["task"] == 2)
    assert shape(only([*found, {**held, "children": []}]).hops) == WHOLE


def test_a_machine_whose_clock_is_behind_is_moved_so_that_nothing_arrives_before_it_was_sent() -> None:
    tree = only(events(ahead={"b": -0.5}))
    assert set(tree.shifts_s) == {"b"}
    assert 0.49 <= tree.shifts_s["b"] <= 0.5
    assert shape(tree.hops) == WHOLE
    for hop in tree.all_hops():
        known = [at for at in hop.times() if at is not None]
        assert known == sorted(known)


def test_a_machine_whose_clock_is_ahead_is_moved_so_that_the_spout_learns_of_acks_after_them() -> None:
    tree = only(events(ahead={"b": 0.5}))
    assert set(tree.shifts_s) == {"b"}
    assert -0.5 <= tree.shifts_s["b"] <= -0.49
    for hop in tree.all_hops():
        if hop.received_s is not None and hop.sent_s is not None:
            assert hop.sent_s <= hop.received_s + 1e-6


def test_clocks_that_agree_are_left_alone() -> None:
    assert only(events(ahead={"b": 0.001})).shifts_s == {}


def test_several_trees_come_in_the_order_of_their_beginning() -> None:
    later = [{**event, "root": "0000000000000bbb", "at": event["at"] + 1} for event in events()]
    assert [tree.root for tree in join([*later, *events()])] == [ROOT, "0000000000000bbb"]


def test_a_failed_tuple_and_one_that_raised() -> None:
    found = [
        {**event, "kind": "fail"} if event["kind"] == "ack" and event["task"] == 4 else event for event in events()
    ]
    found = [
        {**event, "error": "KeyError"} if event.get("edge") == "e3" and "until" in event else event for event in found
    ]
    hops = {hop.edge: hop for hop in only(found).all_hops()}
    assert (hops["e2"].outcome, hops["e3"].error) == ("failed", "KeyError")


def test_the_tree_of_a_checkpoint_is_known_by_its_spout() -> None:
    assert not only(events()).is_of_system
    steps = [{**event, "component": "$checkpointspout"} if event.get("task") == 1 else event for event in events()]
    assert only(steps).is_of_system


class Late:
    """Lines of workers, of which those of one come some time after the verdict."""

    def __init__(self, late_s: float) -> None:
        self.late_s = late_s

    def lines(self) -> Iterator[tuple[str, str] | None]:
        given = sorted(events(), key=lambda event: event["worker"] == "b:2")
        first = [event for event in given if event["worker"] != "b:2"]
        yield from (("a", json.dumps(event)) for event in first)
        until_s = time.monotonic() + self.late_s
        while time.monotonic() < until_s:
            time.sleep(0.02)
            yield None
        yield from (("b", json.dumps(event)) for event in given[len(first) :])
        while True:
            time.sleep(0.02)
            yield None


def test_events_that_a_worker_writes_late_are_waited_for() -> None:
    found = _collect(Late(_SETTLE_S + 0.3), time.monotonic() + 60, 1, False)  # type: ignore[arg-type]
    [tree] = join(found)
    assert tree.is_whole
    assert [hop.component for hop in tree.hops] == ["split"]
