"""A worked example of tracking, with real spouts, bolts, collectors and ledgers, and fixed ids.

Two spouts, sid1 and sid2, emit stid1 = 1010 and stid2 = 1011. Two ackers share the trees by `root mod 2`. Bolt1 takes
both and emits tid1 = 1100 anchored to both, then acks its inputs; Bolt2 takes tid1 and acks it. In the example a spout
tuple's id is root and edge in one, and tid1 is the same edge in both trees: so those ids are drawn twice.

The example has two messages, "here is a new tuple" and "this tuple is acked"; here an ack carries both as one xor.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hand_driven import HandDriven, apply, inits, xors
from local_components import Do, Log

from tupletree import TopologyBuilder
from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.testing import FeederSpout
from tupletree.worker.core.ack_updates import AckUpdates, split
from tupletree.worker.core.batches import MULTI

STID1, STID2, TID1 = 0b1010, 0b1011, 0b1100
IDS = [STID1, STID1, STID2, STID2, TID1, TID1]


class Example:
    """The topology of the example, and its two ackers."""

    def __init__(self, bolt2: Any) -> None:
        self.spout1, self.spout2 = FeederSpout(["n"]), FeederSpout(["n"])
        inputs = Log()

        def bolt1(tup: Any, collector: Any) -> None:
            inputs.append(tup)
            if len(inputs) == 2:
                collector.emit([3], anchors=[inputs[0], inputs[1]])
                collector.ack(inputs[0])
                collector.ack(inputs[1])

        builder = TopologyBuilder()
        builder.set_spout("spout1", self.spout1)
        builder.set_spout("spout2", self.spout2)
        builder.set_bolt("bolt1", Do(bolt1, ["n"])).shuffle_grouping("spout1").shuffle_grouping("spout2")
        builder.set_bolt("bolt2", bolt2).shuffle_grouping("bolt1")
        ids = iter(IDS)
        self.hand = HandDriven(builder.create_topology(), getrandbits=lambda bits: next(ids))
        self.ackers = [Ledger(), Ledger()]
        self.spout1.feed([1], "message 1")
        self.spout2.feed([2], "message 2")

    def step(self, component: str) -> AckUpdates:
        """Drive a component until it has nothing to do, and return what it has to tell the ackers."""
        while self.hand.step(component):
            pass
        return self.hand.take_updates()

    def tell(self, updates: AckUpdates) -> list[Verdicts]:
        """Tell each acker its share, and the spouts the verdicts."""
        verdicts = [apply(self.ackers[shard], part) for shard, part in sorted(split(updates, 2).items())]
        for one in verdicts:
            self.hand.tell_verdicts(one)
        return verdicts

    def ack_value(self, root: int) -> int:
        """What the acker of a root holds."""
        value = self.ackers[root % 2].ack_value(root)
        assert value is not None
        return value

    def end(self) -> tuple[list[Any], ...]:
        """Let the spouts hear, and return who heard what: acked and failed of spout 1, then of spout 2."""
        self.step("spout1")
        self.step("spout2")
        return self.spout1.acked, self.spout1.failed, self.spout2.acked, self.spout2.failed


def test_the_worked_example_number_by_number() -> None:
    example = Example(Do())
    sid1, sid2 = example.hand.tasks["spout1"][0], example.hand.tasks["spout2"][0]

    # The spouts emit: "[stid1, sid1]" for Acker1, "[stid2, sid2]" for Acker2.
    updates = example.step("spout1")
    assert inits(updates) == [(0b1010, 0b1010, sid1)]
    example.tell(updates)
    updates = example.step("spout2")
    assert inits(updates) == [(0b1011, 0b1011, sid2)]
    example.tell(updates)
    assert [len(acker) for acker in example.ackers] == [1, 1]
    assert (example.ack_value(STID1), example.ack_value(STID2)) == (0b1010, 0b1011)

    # Bolt1 emits tid1 anchored to both and acks both: 1010 xor 1100 = 0110 and 1011 xor 1100 = 0111 are what it tells.
    updates = example.step("bolt1")
    assert xors(updates) == {STID1: 0b0110, STID2: 0b0111}
    assert example.tell(updates) == [Verdicts(), Verdicts()]
    assert (example.ack_value(STID1), example.ack_value(STID2)) == (0b1100, 0b1100)

    # The received tuple tid1 contains both spout tuple ids.
    *_, (origin, _, [(values, root, edge)]) = example.hand.delivered
    assert (origin.component, values, root, edge) == ("bolt1", [3], MULTI, ((STID1, TID1), (STID2, TID1)))

    # Bolt2 acks tid1 at both ackers: 1100 xor 1100 = 0000, and the ack method of the originating spout task is called.
    updates = example.step("bolt2")
    assert xors(updates) == {STID1: 0b1100, STID2: 0b1100}
    first, second = example.tell(updates)
    assert (first.acked, second.acked) == ({sid1: array("Q", [STID1])}, {sid2: array("Q", [STID2])})
    assert example.end() == (["message 1"], [], ["message 2"], [])
    assert [len(acker) for acker in example.ackers] == [0, 0]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1), (1, 3, 0, 2), (3, 0, 2, 1)])
def test_the_order_of_the_messages_does_not_matter(order: tuple[int, ...]) -> None:
    """Updates reach the ackers in another order than they arose."""
    example = Example(Do())
    news = [example.step(component) for component in ("spout1", "spout2", "bolt1", "bolt2")]
    verdicts = [one for index in order for one in example.tell(news[index])]
    assert sum(bool(one) for one in verdicts) == 2
    assert example.end() == (["message 1"], [], ["message 2"], [])


def test_all_of_it_in_one_flush_is_the_same() -> None:
    example = Example(Do())
    for component in ("spout1", "spout2", "bolt1", "bolt2"):
        while example.hand.step(component):
            pass
    updates = example.hand.take_updates()
    assert [(root, value) for root, value, _ in inits(updates)] == [(STID1, 0), (STID2, 0)]
    assert not xors(updates), "the inits say it all"
    example.tell(updates)
    assert example.end() == (["message 1"], [], ["message 2"], [])


def test_when_bolt2_fails_tid1_both_spouts_hear_of_it_at_once() -> None:
    example = Example(Do(lambda tup, collector: collector.fail(tup)))
    for component in ("spout1", "spout2", "bolt1", "bolt2"):
        example.tell(example.step(component))
    assert example.end() == ([], ["message 1"], [], ["message 2"])


def test_when_bolt2_dies_with_tid1_both_messages_time_out() -> None:
    """Storm's guarantees: "a tuple isn't acked because the task died"."""
    example = Example(Do(lambda tup, collector: None))
    for component in ("spout1", "spout2", "bolt1", "bolt2"):
        example.tell(example.step(component))
    assert (example.ack_value(STID1), example.ack_value(STID2)) == (0b1100, 0b1100)
    example.hand.now_s = 30
    assert example.end() == ([], [], [], [])
    example.hand.now_s = 60
    assert example.end() == ([], ["message 1"], [], ["message 2"])


def test_when_acker1_dies_its_message_times_out_and_the_other_is_acked() -> None:
    """Storm's guarantees: when an acker dies, its trees time out and are replayed."""
    example = Example(Do())
    example.tell(example.step("spout1"))
    example.tell(example.step("spout2"))
    example.ackers[0] = Ledger()
    for component in ("bolt1", "bolt2"):
        example.tell(example.step(component))
    assert example.end() == ([], [], ["message 2"], [])
    example.hand.now_s = 60
    assert example.end() == ([], ["message 1"], ["message 2"], [])
