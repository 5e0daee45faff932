"""States that another has had open meanwhile, by steps of checkpoints that are put into inboxes by hand."""

from __future__ import annotations

import uuid

from hand_driven import HandDriven

from tupletree import BasicBolt, Spout, StatefulBolt, TopologyBuilder
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._checkpoints.steps import STREAM, Action, Step
from tupletree._stores import memory_nodes
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.providers import open_state
from tupletree.tuples import Origin
from tupletree.worker.core.batches import Batch, Rows


class Words(Spout):
    outputs = ("word",)


class Pass(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        pass


class Count(StatefulBolt):
    outputs = ("word",)

    def prepare(self, conf, context, collector):
        self.executed, self.states = [], []

    def init_state(self, state):
        self.state = state
        self.states.append(dict(state.items()))

    def execute(self, tup):
        self.executed.append(tup["word"])
        self.state.put(tup["word"], self.state.get(tup["word"], 0) + 1)
        self.collector.ack(tup)


class Hand:
    """words --> keep --> count, and words --> other --> count, with nobody at the checkpoint spout."""

    def __init__(self, conf=None):
        builder = TopologyBuilder()
        builder.set_spout("words", Words())
        builder.set_bolt("keep", Pass()).shuffle_grouping("words")
        builder.set_bolt("other", Pass()).shuffle_grouping("words")
        builder.set_bolt("count", Count()).shuffle_grouping("keep").shuffle_grouping("other")
        self.root = f"/{uuid.uuid4().hex}"
        memory_nodes.register(self.root)
        conf = {**(conf or {}), "zookeeper.servers": [], "transactional.zookeeper.root": self.root}
        self.driven = HandDriven(builder.create_topology(), conf)
        self.conf = self.driven.executor("count").tasks[0].context.conf

    def bolt(self, name):
        return self.driven.executor(name).tasks[0].bolt

    def put(self, source, target, stream, rows, fields):
        origin = Origin(source, self.driven.tasks[source][0], stream, fields)
        self.driven.executor(target).inbox.put(Batch(origin, self.driven.tasks[target][0], rows), len(rows))
        while self.driven.step(target):
            pass

    def send(self, target, step, sources, sent=0, root=1):
        """A step from each of these components; the root and the edge of the n-th are ``root + n``."""
        for number, source in enumerate(sources, root):
            rows = Rows.of([(step.row(sent), number, number)])
            self.put(source, target, CHECKPOINT_STREAM, rows, STREAM.fields)

    def word(self, source, target, word, root):
        rows = Rows.of([([word], root, root)])
        self.put(source, target, "default", rows, ("word",))


BOTH = ("keep", "other")


def sqlite(tmp_path):
    config = {"directory": str(tmp_path)}
    return {"topology.state.provider": "sqlite", "topology.state.provider.config": config}


def test_a_state_that_another_has_had_open_meanwhile_is_opened_anew_for_its_commit(tmp_path):
    """A worker that was replaced opens its states, later than its successor did, and dies between two steps."""
    hand = Hand(sqlite(tmp_path))
    hand.send("count", Step(1, Action.INITSTATE, 0), BOTH)
    _, other = open_state("hand/count/0", hand.conf, None)
    other.put("word", 7)
    other.prepare_commit(1)
    hand.send("count", Step(2, Action.COMMIT, 1), BOTH)
    hand.send("count", Step(3, Action.INITSTATE, 1), BOTH)
    assert hand.bolt("count").states == [{}, {"word": 7}]


def test_a_state_that_another_has_committed_meanwhile_is_opened_anew_for_its_initialisation(tmp_path):
    hand = Hand(sqlite(tmp_path))
    hand.send("count", Step(1, Action.INITSTATE, 0), BOTH)
    hand.word("keep", "count", "lost", 10)
    _, other = open_state("hand/count/0", hand.conf, None)
    other.put("word", 7)
    other.prepare_commit(1)
    other.commit(1)
    hand.driven.take_updates()
    hand.send("count", Step(3, Action.INITSTATE, 1), BOTH)
    assert hand.bolt("count").states == [{}, {"word": 7}]
    assert hand.driven.take_updates().fails == {10}, "its effect is gone with the state"


def test_a_state_is_not_opened_for_a_step_that_is_older_than_what_is_stored(tmp_path):
    """A worker that was replaced comes to its states late: its successor has prepared since, and stored the round."""
    provider = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(tmp_path)}}
    hand = Hand(provider)
    store = memory_nodes.registered(hand.root)
    record = CheckpointRecord.take_over(store, "hand", "somebody")
    _, successor = open_state("hand/count/0", hand.conf, hand.driven.executor("count").tasks[0].context)
    successor.put("word", 1)
    successor.prepare_commit(1)
    record.save(Checkpoint(1, Phase.PREPARING, {"count": 1}, round=30))
    hand.send("count", Step(20, Action.ROLLBACK, 1), ["keep", "other"])
    assert hand.driven.take_updates().fails == {1, 2}, "refused"
    assert hand.driven.errors == []
    _, state = open_state("hand/count/0", hand.conf, hand.driven.executor("count").tasks[0].context)
    assert state.prepared == 1
    hand.send("count", Step(31, Action.COMMIT, 1), ["keep", "other"], root=5)
    assert hand.driven.take_updates().fails == set()
    _, state = open_state("hand/count/0", hand.conf, hand.driven.executor("count").tasks[0].context)
    assert dict(state.items()) == {"word": 1}
