"""What is not a step of a checkpoint is reported and does no harm, wherever it comes to."""

from __future__ import annotations

import pytest
from hand_driven import HandDriven
from local_components import DoBasic

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT, STREAM, Action, Step
from tupletree.errors import ProtocolError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Origin
from tupletree.v1 import worker_pb2
from tupletree.worker.core.batches import EncodedBatch, Rows, check, encode
from tupletree.worker.execution.inbox import RemoteBatch

ALIGNED = {"topology.state.checkpoint.aligned": True}
INITIALISE = Step(10, Action.INITSTATE, 0)


class Source(Spout):
    outputs = ("n",)

    def next_tuple(self):
        self.collector.emit([1])


class Keep(StatefulBolt):
    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.collector.ack(tup)


@pytest.fixture
def hand():
    builder = TopologyBuilder()
    builder.set_spout("source", Source())
    builder.set_bolt("middle", DoBasic(None, ["n"])).shuffle_grouping("source")
    builder.set_bolt("keep", Keep()).shuffle_grouping("middle")
    return HandDriven(builder.create_topology(), ALIGNED)


def put(hand, component, source, row, **changes):
    origin = Origin(source, hand.tasks[source][0], CHECKPOINT_STREAM, STREAM.fields)
    message = encode(origin, hand.tasks[component][0], Rows.of([(row, 7, 9)]))
    for name, value in changes.items():
        setattr(message, name, value)
    hand.executor(component).inbox.put(RemoteBatch(message, origin), message.rows)


SOURCES = [("source", CHECKPOINT_SPOUT), ("middle", "source"), ("keep", "middle")]
GARBAGE = [
    [1, 9, 1, [], 0],
    [1, 1, 1, None, 0],
    ["x", 1, 1, [], 0],
    [1, 1, 1, [], None],
    [1, 1, 1, [["count"]], 0],
    [1, 1, 1, ["new", [1, "count"]], 0],
    [1, 1, 1, [2], 0],
]


@pytest.mark.parametrize(("component", "source"), SOURCES)
@pytest.mark.parametrize("values", GARBAGE, ids=str)
def test_a_tuple_that_is_no_step_is_reported_and_failed(hand, component, source, values):
    put(hand, component, source, values)
    hand.step(component)
    assert [str(error) for _, _, error in hand.errors] == [f"{values!r} is not a step of a checkpoint"]
    assert hand.take_updates().fails == {7}
    put(hand, component, source, INITIALISE.row(0))
    hand.step(component)
    assert hand.executor(component).tasks[0].participant.is_ready
    assert hand.executor(component).inbox.rows == 0


@pytest.mark.parametrize(("component", "source"), SOURCES)
def test_a_step_that_cannot_be_decoded_is_reported(hand, component, source):
    put(hand, component, source, INITIALISE.row(0), values=b"\xc1")
    hand.step(component)
    [(_, _, error)] = hand.errors
    assert isinstance(error, ProtocolError)
    assert hand.executor(component).inbox.rows == 0


def test_a_generation_that_cannot_be_is_refused_where_it_arrives():
    with pytest.raises(ProtocolError, match="a batch has generation 9223372036854775808; less than 2"):
        check(EncodedBatch.of(worker_pb2.Batch(generation=1 << 63)))
