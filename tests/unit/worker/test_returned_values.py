"""A value that a component returns instead of emitting it ends its worker with a sentence: no tuple is acked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do

from tupletree import BasicBolt, Bolt, Spout, TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.batches import Batch, Rows


def generator(*_: Any) -> Iterator[list[Any]]:
    yield [1]


def bolt_of(base: type, **methods: Any) -> Any:
    return type("Bad", (base,), {"outputs": ["word"], **methods})()


def fed(bolt: Any) -> HandDriven:
    """A tracked tuple at the bolt, which is task 1."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    builder.set_bolt("thesink", Do()).shuffle_grouping("bolt")
    hand = HandDriven(builder.create_topology())
    hand.executor("bolt").inbox.put(Batch(Origin("spout", 2, "default", ["n"]), 1, Rows.of([([7], 5, 9)])), 1)
    return hand


@pytest.mark.parametrize(
    ("bolt", "method", "what"),
    [
        (bolt_of(BasicBolt, execute=lambda self, tup, collector: [tup[0]]), "execute", "a list"),
        (bolt_of(Bolt, execute_batch=lambda self, tuples: generator(tuples)), "execute_batch", "a generator"),
    ],
)
def test_a_bolt_that_returns_values_fails_and_its_input_is_not_acked(bolt: Any, method: str, what: str) -> None:
    hand = fed(bolt)
    with pytest.raises(TaskFailedError, match=rf"component 'bolt': Bad\.{method} returned {what}; a returned value is"):
        hand.step("bolt")
    updates = hand.take_updates()
    assert not len(updates.acks)
    assert not updates.fails


def test_the_result_of_emit_may_be_returned() -> None:
    hand = fed(bolt_of(BasicBolt, execute=lambda self, tup, collector: collector.emit([tup[0]])))
    assert hand.step("bolt")
    assert [rows[0][0] for _, target, rows in hand.delivered] == [[7]]


@pytest.mark.parametrize(("method", "returns"), [("next_tuple", lambda: ["a"]), ("open", generator)])
def test_a_spout_that_returns_values_fails(method: str, returns: Callable[[], Any]) -> None:
    spout: Any = type("Bad", (Spout,), {"outputs": ["word"], "next_tuple": lambda self: None})
    setattr(spout, method, lambda self, *arguments: returns())
    builder = TopologyBuilder()
    builder.set_spout("spout", spout())
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology())
    with pytest.raises(TaskFailedError, match=rf"component 'spout': Bad\.{method} returned a (list|generator)"):
        hand.step("spout")


@pytest.mark.parametrize("method", ["ack", "fail"])
def test_an_unfinished_call_of_ack_or_fail_fails_the_spout(method: str) -> None:
    spout: Any = type("Bad", (Spout,), {"outputs": ["word"], method: lambda self, msg_id: generator(msg_id)})()
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology(), {"topology.max.spout.pending": 1})
    task: Any = hand.executor("spout").tasks[0]
    task.spout.next_tuple = lambda: task.spout.collector.emit(["a"], 1)
    hand.step("spout")
    kind = VerdictKind.ACKED if method == "ack" else VerdictKind.FAILED
    hand.tell("spout", TreeVerdict(task.task_id, kind, list(task.pending)))
    with pytest.raises(TaskFailedError, match=rf"Bad\.{method} returned a generator; a returned value is ignored$"):
        hand.step("spout")
