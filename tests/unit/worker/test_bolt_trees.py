"""Trees that a bolt task begins itself: what they tell the ackers, and what becomes of their inputs."""

from __future__ import annotations

from typing import Any

import pytest
from hand_driven import HandDriven, inits, xors
from local_components import Do

from tupletree import Bolt, TopologyBuilder
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker.control_messages import Control, ShardsLost, TreeVerdict, VerdictKind, WorkerLost
from tupletree.worker.core.batches import MULTI, Batch, Row, Rows

SOURCE = Origin("spout", 2, "default", ["n"])
INPUTS: list[Row] = [(["a"], 7, 1), (["b"], 8, 2), (["c"], MULTI, ((8, 4), (9, 8))), (["d"], 0, 0)]
ACKED = {7: 1, 8: 2 ^ 4, 9: 8}
TIMEOUT_S = 10.0


class Combined(Bolt):
    """Emits two tuples for each batch of inputs."""

    outputs = ("m",)

    def execute_batch(self, tuples: Any) -> None:
        assert self.collector.emit_combined([["x"], ["y"]], tuples) == 2


def hand_driven(sinks: int = 1, is_tracked: bool = True, bolt: Bolt | None = None) -> HandDriven:
    """spout (task 2) -> bolt (task 1) -> sinks, each of which gets every tuple."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt or Combined()).shuffle_grouping("spout")
    if sinks:
        builder.set_bolt("thesink", Do(), sinks).all_grouping("bolt")
    conf = {"topology.message.timeout.secs": TIMEOUT_S}
    return HandDriven(builder.create_topology(), conf, is_tracked=is_tracked)


def emit(hand: HandDriven, rows: list[Row] = INPUTS) -> list[Row]:
    """Have the bolt take inputs, and return what it emits for them."""
    hand.delivered.clear()
    hand.executor("bolt").inbox.put(Batch(SOURCE, 1, Rows.of(rows)), len(rows))
    drain(hand)
    return [row for _, _, delivered in hand.delivered for row in delivered]


def drain(hand: HandDriven) -> None:
    while hand.step("bolt"):
        pass


def begun() -> tuple[HandDriven, int]:
    """A bolt that waits for a tree of its own, and that tree's root."""
    hand = hand_driven()
    emit(hand)
    [(root, _, _)] = inits(hand.take_updates())
    return hand, root


def told(hand: HandDriven, control: Control) -> tuple[dict[int, int], set[int]]:
    """What the bolt tells the ackers of its inputs when it hears this."""
    hand.tell("bolt", control)
    drain(hand)
    updates = hand.take_updates()
    return xors(updates), updates.fails


@pytest.mark.parametrize("sinks", [1, 3])
def test_the_tuples_form_a_tree_of_the_task_and_their_inputs_wait(sinks: int) -> None:
    hand = hand_driven(sinks)
    rows = emit(hand)
    updates = hand.take_updates()
    assert len(rows) == 2 * sinks
    [root] = {root for _, root, _ in rows}
    value = 0
    for _, _, edge in rows:
        value ^= edge
    assert inits(updates) == [(root, value, 1)]
    assert not xors(updates)
    assert hand.executor("bolt").tree_tasks == [1]


def test_inputs_are_acked_when_the_tree_is_complete_and_once() -> None:
    hand, root = begun()
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [root])) == (ACKED, set())
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [root])) == ({}, set())
    assert hand.executor("bolt").tasks[0].counters.acked == len(INPUTS)


@pytest.mark.parametrize("verdict", [VerdictKind.FAILED, VerdictKind.EXPIRED])
def test_inputs_fail_with_the_tree(verdict: Any) -> None:
    hand, root = begun()
    assert told(hand, TreeVerdict(1, verdict, [root])) == ({}, {7, 8, 9})
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [root])) == ({}, set())
    assert hand.executor("bolt").tasks[0].counters.failed == len(INPUTS)


class Twice(Bolt):
    """Emits a tree for the first and one for the second output of each batch of inputs."""

    outputs = ("m",)

    def execute_batch(self, tuples: Any) -> None:
        self.collector.emit_combined([["x"]], tuples)
        self.collector.emit_combined([["y"]], tuples)


def in_two_trees() -> tuple[HandDriven, list[int]]:
    hand = hand_driven(bolt=Twice())
    emit(hand)
    return hand, [root for root, _, _ in inits(hand.take_updates())]


def test_inputs_of_two_trees_are_acked_with_the_second() -> None:
    hand, [first, second] = in_two_trees()
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [second])) == ({}, set())
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [first])) == (ACKED, set())


def test_inputs_of_two_trees_fail_with_either_and_once() -> None:
    hand, [first, second] = in_two_trees()
    assert told(hand, TreeVerdict(1, VerdictKind.FAILED, [first])) == ({}, {7, 8, 9})
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [second])) == ({}, set())
    hand, [first, second] = in_two_trees()
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [first])) == ({}, set())
    assert told(hand, TreeVerdict(1, VerdictKind.FAILED, [second])) == ({}, {7, 8, 9})


def test_verdicts_are_heard_while_the_task_is_held() -> None:
    hand, root = begun()
    hand.gate.set("test", hand.tasks["thesink"])
    assert hand.executor("bolt").is_held
    hand.tell("bolt", TreeVerdict(1, VerdictKind.ACKED, [root]))
    assert hand.executor("bolt").has_work
    drain(hand)
    assert xors(hand.take_updates()) == ACKED
    assert not hand.executor("bolt").has_work


def test_other_trees_than_its_own_are_nothing_to_it() -> None:
    hand, root = begun()
    assert told(hand, TreeVerdict(1, VerdictKind.FAILED, [root ^ 1])) == ({}, set())
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [root])) == (ACKED, set())


def test_a_tree_that_nobody_hears_of_fails_after_one_to_two_timeouts() -> None:
    hand, _ = begun()
    hand.now_s = TIMEOUT_S
    drain(hand)
    assert not hand.take_updates()
    assert hand.executor("bolt").due_s() == 2 * TIMEOUT_S
    hand.now_s = 2 * TIMEOUT_S
    drain(hand)
    assert hand.take_updates().fails == {7, 8, 9}
    assert hand.executor("bolt").due_s() == float("inf"), "nothing is pending, nothing is due"


def test_a_reset_starts_the_timeouts_of_tree_and_inputs_again() -> None:
    hand, root = begun()
    hand.now_s = TIMEOUT_S
    drain(hand)
    hand.tell("bolt", TreeVerdict(1, VerdictKind.RESET, [root]))
    drain(hand)
    assert hand.take_updates().resets == {7, 8, 9}
    hand.now_s = 2 * TIMEOUT_S
    drain(hand)
    assert not hand.take_updates()


def test_a_lost_shard_fails_the_inputs_of_its_trees_only() -> None:
    hand, root = begun()
    assert told(hand, ShardsLost(frozenset([1 - root % 2]), 2)) == ({}, set())
    assert told(hand, ShardsLost(frozenset([root % 2]), 2)) == ({}, {7, 8, 9})


def test_a_lost_worker_fails_what_does_not_outlive_the_grace() -> None:
    hand, _ = begun()
    hand.tell("bolt", WorkerLost(3.0))
    drain(hand)
    emit(hand, [(["z"], 11, 1)])
    [(later, _, _)] = inits(hand.take_updates())
    assert hand.executor("bolt").due_s() == 3.0
    hand.now_s = 3.0
    drain(hand)
    assert hand.take_updates().fails == {7, 8, 9}
    assert told(hand, TreeVerdict(1, VerdictKind.ACKED, [later])) == ({11: 1}, set())


@pytest.mark.parametrize(
    ("sinks", "is_tracked", "rows"), [(0, True, INPUTS), (1, False, INPUTS), (1, True, INPUTS[3:])]
)
def test_what_nobody_receives_or_nobody_tracks_is_settled_at_once(
    sinks: int, is_tracked: bool, rows: list[Row]
) -> None:
    hand = hand_driven(sinks, is_tracked)
    assert {root for _, root, _ in emit(hand, rows)} <= {0}
    updates = hand.take_updates()
    assert not inits(updates)
    assert hand.executor("bolt").tasks[0].counters.acked == len(rows)
