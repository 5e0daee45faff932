"""What the tests of stateful topologies in one process have in common."""

from __future__ import annotations

from local_components import Log

from tupletree import Spout, StatefulBolt, TopologyBuilder
from tupletree.state.providers import open_state
from tupletree.testing import FeederSpout

FAST = {"topology.state.checkpoint.interval.ms": 100}
ALIGNED = {**FAST, "topology.state.checkpoint.aligned": True}


class Count(StatefulBolt):
    """Counts words. ``log``: what it is called for."""

    outputs = ("word", "count")

    def __init__(self, log=None):
        self.log = Log() if log is None else log

    def init_state(self, state):
        self.counts = state
        self.log.append(("init", dict(state.items())))

    def execute(self, tup):
        count = self.counts.get(tup["word"], 0) + 1
        self.counts.put(tup["word"], count)
        self.collector.emit([tup["word"], count], tup)
        self.collector.ack(tup)

    def pre_prepare(self, txid):
        self.log.append(("prepare", txid, dict(self.counts.items())))

    def pre_commit(self, txid):
        self.log.append(("commit", txid))

    def pre_rollback(self):
        self.log.append(("rollback",))


def calls(log, name):
    return [call for call in list(log) if call[0] == name]


def counting(count, spout=None, tasks=1):
    builder = TopologyBuilder()
    builder.set_spout("words", spout or FeederSpout(["word"]))
    builder.set_bolt("count", count, tasks).fields_grouping("words", ["word"])
    return builder


def sqlite(directory):
    return {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(directory)}}


def rocksdb(directory):
    (directory / "shared").mkdir(exist_ok=True)
    places = {"shared": str(directory / "shared"), "directory": str(directory / "copies")}
    return {"topology.state.provider": "rocksdb", "topology.state.provider.config": places}


def stored(conf, component="count", index=0, name="words"):
    """The state of a task whose topology was killed when all was acked.

    With aligned checkpoints, acks come when a checkpoint is recorded as committed, and a kill can come before the tasks
    hear of it: their successors commit what is prepared.
    """

    class Context:
        pass

    Context.conf = conf
    _, state = open_state(f"{name}/{component}/{index}", conf, Context)
    if conf.get("topology.state.checkpoint.aligned") and state.prepared is not None:
        state.commit(state.prepared)
    found = dict(state.items())
    state.close()
    return found


class Numbers(Spout):
    """Positioned. Emits 0, 1, 2, … below ``limit``, and is never more than AHEAD ahead of what is committed."""

    outputs = ("word",)

    def __init__(self, limit, told=None):
        self.limit = limit
        self.told = Log() if told is None else told

    def open(self, conf, context, collector):
        self.next = 0
        self.committed = 0

    def next_tuple(self):
        if self.next < min(self.limit, self.committed + AHEAD):
            self.collector.emit([str(self.next % 7)], self.next)
            self.next += 1

    def checkpoint_state(self):
        return self.next

    def restore_state(self, state):
        self.told.append(("restore", state))
        self.next = self.committed = state

    def ack(self, msg_id):
        self.told.append(("ack", msg_id))
        self.committed += 1

    def fail(self, msg_id):
        self.told.append(("fail", msg_id))


LIMIT, AHEAD = 4000, 400


def sevens(limit):
    return {str(digit): len(range(digit, limit, 7)) for digit in range(7)}
