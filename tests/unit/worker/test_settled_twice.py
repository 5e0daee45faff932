"""A bolt that acks or fails a tuple again, or acks what it has failed: its tree may be over, and nothing may stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hand_driven import HandDriven, apply
from local_components import Do, Log

from tupletree import TopologyBuilder
from tupletree.acker.ledger import Ledger
from tupletree.testing import FeederSpout

Settle = Callable[[Any, Any], None]


def ack(tup: Any, collector: Any) -> None:
    collector.ack(tup)


def ack_many(tup: Any, collector: Any) -> None:
    collector.ack_many([tup])


def fail(tup: Any, collector: Any) -> None:
    collector.fail(tup)


def joined(first: Any, second: Any, collector: Any) -> None:
    """Hand on a tuple of the trees of both, and settle them."""
    collector.emit([0], anchors=[first, second])
    collector.ack_many([first, second])


@pytest.mark.parametrize("second", [ack, ack_many])
@pytest.mark.parametrize("first", [ack, ack_many])
def test_a_tuple_that_is_acked_again_when_its_tree_is_over_leaves_nothing_at_the_acker(
    first: Settle, second: Settle
) -> None:
    assert len_after(first, second, joins=False) == 0
    assert len_after(first, second, joins=True) == 0


@pytest.mark.parametrize("second", [ack, ack_many, fail])
def test_a_tuple_that_is_settled_again_when_its_tree_has_failed_leaves_nothing_at_the_acker(second: Settle) -> None:
    assert len_after(fail, second, joins=False) == 0
    assert len_after(fail, second, joins=True) == 0


def len_after(first: Settle, second: Settle, joins: bool) -> int:
    """How many entries a ledger holds after a bolt has settled two messages, and then once more."""
    held, collectors, firsts = Log(), Log(), Log()

    def last(tup: Any, collector: Any) -> None:
        held.append(tup)
        collectors.append(collector)
        first(tup, collector)

    def join(tup: Any, collector: Any) -> None:
        firsts.append(tup)
        if not joins:
            collector.emit([0], anchors=tup)
            collector.ack(tup)
        elif len(firsts) == 2:
            joined(*firsts, collector)

    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("join", Do(join, ["n"])).shuffle_grouping("spout")
    builder.set_bolt("last", Do(last)).shuffle_grouping("join")
    hand, ledger = HandDriven(builder.create_topology()), Ledger()
    feeder.feed([1], 1)
    feeder.feed([2], 2)
    for component in ("spout", "join", "last"):
        while hand.step(component):
            pass
    apply(ledger, hand.take_updates())
    assert held
    for tup, collector in zip(held, collectors, strict=True):
        second(tup, collector)
    apply(ledger, hand.take_updates())
    return len(ledger)
