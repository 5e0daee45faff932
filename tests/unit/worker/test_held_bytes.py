"""What a task holds back for a checkpoint is bounded by bytes."""

from __future__ import annotations

import pytest
from hand_driven import HandDriven

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree._checkpoints.steps import STREAM, Action, Step
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Origin
from tupletree.worker.core.batches import Batch, Rows

MAX_BYTES = 1 << 20
CONF = {"topology.executor.receive.buffer.bytes": MAX_BYTES, "topology.state.checkpoint.aligned": True}


class Source(Spout):
    outputs = ("blob",)

    def next_tuple(self):
        pass


SEEN: list[object] = []


class Keep(StatefulBolt):
    def init_state(self, state):
        SEEN.clear()

    def execute(self, tup):
        SEEN.append(tup.values)
        self.collector.ack(tup)


@pytest.fixture
def hand():
    builder = TopologyBuilder()
    builder.set_spout("fast", Source())
    builder.set_spout("slow", Source())
    builder.set_bolt("keep", Keep()).shuffle_grouping("fast").shuffle_grouping("slow")
    return HandDriven(builder.create_topology(), CONF)


def put(hand, origin, rows, size, generation=0):
    target = hand.tasks["keep"][0]
    batch = Rows.of(rows)
    batch = Rows(batch.columns, batch.roots, batch.edges, batch.pairs, generation, size)
    hand.executor("keep").inbox.put(Batch(origin, target, batch), len(batch), size)
    hand.step("keep")


def put_blob(hand, source, root, size, generation=10):
    put(hand, Origin(source, hand.tasks[source][0], "default", ("blob",)), [([b"x"], root, root)], size, generation)


def put_step(hand, source, step, sent=0):
    put(hand, Origin(source, hand.tasks[source][0], CHECKPOINT_STREAM, STREAM.fields), [(step.row(sent), 7, 9)], 0)


def initialise(hand):
    for source in ("fast", "slow"):
        put_step(hand, source, Step(10, Action.INITSTATE, 0))
    assert hand.executor("keep").tasks[0].participant.is_ready
    hand.take_updates()


def finish(hand):
    while hand.step("keep"):
        pass


def test_large_tuples_beyond_the_bound_are_failed_while_the_state_is_not_there(hand):
    for root in range(1, 9):
        put_blob(hand, "fast", root, MAX_BYTES // 4)
    assert hand.take_updates().fails == {5, 6, 7, 8}
    initialise(hand)
    finish(hand)
    assert len(SEEN) == 4


def test_tuples_of_a_generation_that_has_not_begun_here_are_failed_beyond_the_bound(hand):
    initialise(hand)
    put_step(hand, "fast", Step(20, Action.INITSTATE, 0))
    for root in range(1, 9):
        put_blob(hand, "fast", root, MAX_BYTES // 4, generation=20)
    assert hand.take_updates().fails == {5, 6, 7, 8}
    put_step(hand, "slow", Step(20, Action.INITSTATE, 0))
    finish(hand)
    assert len(SEEN) == 4
    put_step(hand, "fast", Step(21, Action.PREPARE, 1), sent=8)
    put_step(hand, "slow", Step(21, Action.PREPARE, 1), sent=0)
    assert "8 rows in this generation, but 4 have arrived" in hand.executor("keep").tasks[0].participant.barriers.fault


def test_a_batch_that_is_larger_than_the_bound_is_held_if_it_is_alone(hand):
    put_blob(hand, "fast", 1, 3 * MAX_BYTES)
    assert not hand.take_updates().fails
    put_blob(hand, "fast", 2, 1)
    assert hand.take_updates().fails == {2}


def test_large_tuples_beyond_the_bound_make_a_task_give_an_aligned_checkpoint_up(hand):
    initialise(hand)
    put_step(hand, "fast", Step(11, Action.PREPARE, 1))
    for root in range(1, 5):
        put_blob(hand, "fast", root, MAX_BYTES // 4)
    assert hand.errors == []
    assert len(SEEN) == 0
    put_blob(hand, "fast", 5, MAX_BYTES // 4)
    [(component, _, error)] = hand.errors
    assert component == "keep"
    assert "holds back 5 tuples (about 1310720 bytes)" in str(error)
    finish(hand)
    assert len(SEEN) == 5
    assert hand.take_updates().fails == {7}, "the step, and no tuple"


def test_tuples_that_are_held_back_count_as_executed_when_they_are(hand):
    inbox = hand.executor("keep").inbox
    for root in range(1, 4):
        put_blob(hand, "fast", root, 100)
    put_step(hand, "fast", Step(10, Action.INITSTATE, 0))
    assert (inbox.rows, inbox.executed) == (0, 0), "or the task would seem as fast as it puts rows aside"
    initialise(hand)
    finish(hand)
    assert (len(SEEN), inbox.rows, inbox.executed) == (3, 0, 3)
