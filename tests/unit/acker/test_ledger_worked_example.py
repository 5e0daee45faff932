"""A worked example of the ledger, number by number.

Two spouts (tasks sid1, sid2) emit stid1 = 1010 and stid2 = 1011; two ackers share the trees by `root mod 2`. Bolt1
takes both tuples and emits tid1 = 1100 anchored to both; Bolt2 takes tid1. In the example a spout tuple's id is both
the root and the first edge, and each step is its own message.
"""

from __future__ import annotations

from array import array

import pytest

from tupletree.acker.ledger import Ledger, Verdicts

SID1, SID2 = 1, 2
STID1, STID2, TID1 = 0b1010, 0b1011, 0b1100
NONE = array("Q")


@pytest.fixture
def ackers() -> list[Ledger]:
    """The shards: `root mod 2` chooses one."""
    return [Ledger(), Ledger()]


def init(ackers: list[Ledger], root: int, value: int, task: int) -> Verdicts:
    one = array("Q", [root]), array("Q", [value]), array("I", [task])
    return ackers[root % 2].apply(*one, NONE, NONE, NONE, NONE, 0.0)


def ack(ackers: list[Ledger], root: int, value: int) -> Verdicts:
    return ackers[root % 2].apply(NONE, NONE, array("I"), array("Q", [root]), array("Q", [value]), NONE, NONE, 0.0)


def ack_value(ackers: list[Ledger], root: int) -> int:
    """The four bits that the example shows."""
    value = ackers[root % 2].ack_value(root)
    assert value is not None
    return value


def test_mod_hashing_sends_the_two_trees_to_different_ackers(ackers: list[Ledger]) -> None:
    init(ackers, STID1, STID1, SID1)
    init(ackers, STID2, STID2, SID2)
    assert [len(acker) for acker in ackers] == [1, 1]
    assert STID1 % 2 != STID2 % 2


def test_the_worked_example(ackers: list[Ledger]) -> None:
    # The spouts emit: "[stid1, sid1]" to Acker1, "[stid2, sid2]" to Acker2. The ack value is the tuple's id.
    assert not init(ackers, STID1, STID1, SID1)
    assert not init(ackers, STID2, STID2, SID2)
    assert ack_value(ackers, STID1) == 0b1010
    assert ack_value(ackers, STID2) == 0b1011

    # Bolt1 emits tid1 anchored to both: "[stid1, tid1]" to Acker1, "[stid2, tid1]" to Acker2.
    assert not ack(ackers, STID1, TID1)
    assert not ack(ackers, STID2, TID1)
    assert ack_value(ackers, STID1) == 0b1010 ^ 0b1100 == 0b0110
    assert ack_value(ackers, STID2) == 0b1011 ^ 0b1100 == 0b0111

    # Bolt1 acks both of its inputs.
    assert not ack(ackers, STID1, STID1)
    assert not ack(ackers, STID2, STID2)
    assert ack_value(ackers, STID1) == 0b0110 ^ 0b1010 == 0b1100
    assert ack_value(ackers, STID2) == 0b0111 ^ 0b1011 == 0b1100

    # Bolt2 acks tid1 at both: 1100 xor 1100 = 0000, and each spout hears of its own tuple.
    assert ack(ackers, STID1, TID1).acked == {SID1: array("Q", [STID1])}
    assert ack(ackers, STID2, TID1).acked == {SID2: array("Q", [STID2])}
    assert [len(acker) for acker in ackers] == [0, 0]


def test_the_worked_example_with_children_and_parent_in_one_update(ackers: list[Ledger]) -> None:
    """As the project sends it: Bolt1's ack carries `edge xor children` as one value."""
    init(ackers, STID1, STID1, SID1)
    init(ackers, STID2, STID2, SID2)
    assert not ack(ackers, STID1, STID1 ^ TID1)
    assert not ack(ackers, STID2, STID2 ^ TID1)
    assert ack_value(ackers, STID1) == ack_value(ackers, STID2) == 0b1100
    assert ack(ackers, STID1, TID1).acked == {SID1: array("Q", [STID1])}
    assert ack(ackers, STID2, TID1).acked == {SID2: array("Q", [STID2])}


def test_the_order_of_the_messages_does_not_matter(ackers: list[Ledger]) -> None:
    """Bolt2's ack arrives first, the init last."""
    assert not ack(ackers, STID1, TID1)
    assert not ack(ackers, STID1, STID1)
    assert not ack(ackers, STID1, TID1)
    assert ack_value(ackers, STID1) == 0b1010
    assert init(ackers, STID1, STID1, SID1).acked == {SID1: array("Q", [STID1])}
