"""Bolts that take the tuples of a batch at once, and what the collector does for many tuples."""

from __future__ import annotations

from typing import Any

import pytest
from hand_driven import HandDriven, xors
from local_components import Do, Log

from tupletree import Bolt, TopologyBuilder
from tupletree.errors import EmitError, TaskFailedError
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker.core.batches import MULTI, Batch, Row, Rows

SOURCE = Origin("spout", 2, "default", ["n"])


class Whole(Bolt):
    """Calls ``do(tuples, collector)`` for each batch."""

    def __init__(self, do: Any, outputs: Any = ()) -> None:
        self.do = do
        self.outputs = outputs

    def execute_batch(self, tuples: Any) -> None:
        self.do(tuples, self.collector)


def chain(bolt: Bolt, conf: dict[str, Any] | None = None) -> HandDriven:
    """spout (task 2) -> bolt (task 1) -> sink (task 3), the sink only if the bolt emits."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    if bolt.outputs:
        builder.set_bolt("thesink", Do()).shuffle_grouping("bolt")
    return HandDriven(builder.create_topology(), conf)


def feed(hand: HandDriven, rows: list[Row]) -> None:
    hand.executor("bolt").inbox.put(Batch(SOURCE, 1, Rows.of(rows)), len(rows))


def drain(hand: HandDriven) -> None:
    while hand.step("bolt"):
        pass


def test_a_batch_is_given_whole_and_in_order_and_counts_as_its_tuples() -> None:
    log = Log()
    hand = chain(Whole(lambda tuples, collector: log.append([tup[0] for tup in tuples])))
    feed(hand, [([n], 0, 0) for n in range(50)])
    feed(hand, [([50], 0, 0)])
    drain(hand)
    assert list(log) == [list(range(50)), [50]]
    executor = hand.executor("bolt")
    assert (executor.inbox.rows, executor.tasks[0].counters.executed) == (0, 51)


def test_a_batch_is_not_ended_early() -> None:
    log = Log()
    hand = chain(Whole(lambda tuples, collector: log.append(len(tuples))))
    feed(hand, [([n], 0, 0) for n in range(9)])
    hand.executor("bolt").hurry()
    drain(hand)
    assert list(log) == [9]


def test_ticks_come_in_batches_of_their_own() -> None:
    log = Log()
    bolt = Whole(lambda tuples, collector: log.append([tup.is_tick for tup in tuples]))
    hand = chain(bolt, {"topology.tick.tuple.freq.secs": 1})
    feed(hand, [([1], 0, 0)])
    hand.now_s = 1.0
    drain(hand)
    assert list(log) == [[False], [True]]


def test_an_exception_ends_the_worker() -> None:
    def refuse(tuples: Any, collector: Any) -> None:
        raise ValueError("no")

    hand = chain(Whole(refuse))
    feed(hand, [([1], 0, 0)])
    with pytest.raises(TaskFailedError, match="ValueError: no"):
        drain(hand)


def test_a_bolt_that_does_not_take_batches_executes_each_of_one_it_is_given() -> None:
    log = Log()
    bolt = Do(lambda tup, collector: log.append(tup))
    bolt.collector = None  # type: ignore[assignment]
    bolt.execute_batch(["a", "b"])  # type: ignore[list-item]
    assert list(log) == ["a", "b"]


def test_many_acks_are_the_acks_of_each_and_a_second_time_nothing() -> None:
    rows: list[Row] = [(["a"], 7, 1), (["b"], 7, 2), (["c"], 8, 4), (["d"], MULTI, ((8, 16), (9, 32))), (["e"], 7, 64),
                       (["f"], 0, 0)]  # fmt: skip
    expected = {7: 1 ^ 2 ^ 64, 8: 4 ^ 16, 9: 32}
    log = Log()

    def ack(tuples: Any, collector: Any) -> None:
        collector.ack_many(tuples)
        log.extend(tuples)

    hand = chain(Whole(ack))
    feed(hand, rows)
    drain(hand)
    assert xors(hand.take_updates()) == expected
    task = hand.executor("bolt").tasks[0]
    assert task.counters.acked == 6
    task.collector.ack_many(list(log))  # type: ignore[attr-defined]
    assert not hand.take_updates()


def test_the_time_until_the_ack_is_measured_for_batches_too() -> None:
    log = Log()
    hand = chain(Whole(lambda tuples, collector: log.extend(tuples)), {"topology.stats.sample.rate": 1.0})
    feed(hand, [([n], 0, 0) for n in range(3)])
    drain(hand)
    hand.now_s = 2.5
    task = hand.executor("bolt").tasks[0]
    task.collector.ack_many(list(log))  # type: ignore[attr-defined]
    assert (task.counters.process_samples, task.counters.process_s_sum) == (1, 2.5)


def test_emitted_many_have_the_same_anchors_and_an_edge_each() -> None:
    def emit(tuples: Any, collector: Any) -> None:
        assert collector.emit_many([["x"], ("y",)], anchors=tuples[0]) == 2
        assert collector.emit_many([["z"]]) == 1
        collector.ack_many(tuples)

    hand = chain(Whole(emit, ["m"]))
    feed(hand, [([1], 7, 1)])
    drain(hand)
    rows = [row for origin, _, rows in hand.delivered if origin.component == "bolt" for row in rows]
    assert [(values, root) for values, root, _ in rows] == [(["x"], 7), (["y"], 7), (["z"], 0)]
    assert xors(hand.take_updates()) == {7: 1 ^ rows[0][2] ^ rows[1][2]}


@pytest.mark.parametrize("emit", ["emit_many", "emit_combined"])
def test_a_row_of_the_wrong_length_is_an_error(emit: str) -> None:
    hand = chain(Whole(lambda tuples, collector: getattr(collector, emit)([["x", "y"]], tuples), ["m"]))
    feed(hand, [([1], 7, 1)])
    with pytest.raises(TaskFailedError) as failed:
        drain(hand)
    assert isinstance(failed.value.__cause__, EmitError)
