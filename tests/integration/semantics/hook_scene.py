"""Hooks that note what they see, bolts of each kind, and topologies of these."""

from __future__ import annotations

from typing import Any

from local_components import Log

from tupletree import (
    BasicBolt,
    BasicStatefulBolt,
    BatchingBolt,
    Bolt,
    FailedException,
    Topology,
    TopologyBuilder,
)
from tupletree.hooks import TaskHook
from tupletree.testing import FeederSpout

EVENTS = Log()


class Notes(TaskHook):
    """Notes all events in a log, under the name of its component."""

    def __init__(self, log: Any = EVENTS) -> None:
        self.log = log

    def prepare(self, conf: Any, context: Any) -> None:
        self.id = context.component_id
        self.log.append((self.id, "prepare"))

    def cleanup(self) -> None:
        self.log.append((self.id, "cleanup"))

    def emit(self, info: Any) -> None:
        self.log.append((self.id, "emit", info.stream, list(info.values), len(info.target_tasks)))

    def spout_ack(self, info: Any) -> None:
        self.log.append((self.id, "spout_ack", info.message_id, info.latency_s is not None))

    def spout_fail(self, info: Any) -> None:
        self.log.append((self.id, "spout_fail", info.message_id, info.latency_s is not None))

    def bolt_execute(self, info: Any) -> None:
        assert info.latency_s >= 0
        self.log.append((self.id, "execute", info.tuple[0]))

    def bolt_ack(self, info: Any) -> None:
        self.log.append((self.id, "ack", info.tuple[0], info.latency_s is not None))

    def bolt_fail(self, info: Any) -> None:
        self.log.append((self.id, "fail", info.tuple[0], info.latency_s is not None))


def of(log: Any, component: str, *events: str) -> list[Any]:
    """The events of a component in their order, without its name."""
    return [entry[1:] for entry in list(log) if entry[0] == component and (not events or entry[1] in events)]


class Basic(BasicBolt):
    outputs = ("word",)

    def execute(self, tup: Any, collector: Any) -> None:
        if tup[0] == "bad":
            raise FailedException("bad")
        collector.emit([tup[0].upper()])


class Yielding(BasicBolt):
    outputs = ("word",)

    def execute(self, tup: Any, collector: Any) -> Any:
        yield [tup[0].upper()]
        if tup[0] == "bad":
            raise FailedException("bad")


class Explicit(Bolt):
    outputs = ("word",)

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup[0].upper()], tup)
        if tup[0] == "bad":
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class Whole(Bolt):
    outputs = ("word",)

    def execute_batch(self, tuples: Any) -> None:
        for tup in tuples:
            self.collector.emit([tup[0].upper()], tup)
        self.collector.ack_many([tup for tup in tuples if tup[0] != "bad"])
        for tup in tuples:
            if tup[0] == "bad":
                self.collector.fail(tup)


class Gathering(BatchingBolt):
    outputs = ("word",)
    max_batch = 1

    def execute_batch(self, tuples: Any) -> Any:
        for tup in tuples:
            self.collector.emit([tup[0].upper()])
            if tup[0] == "bad":
                raise FailedException("bad")


class Stateful(BasicStatefulBolt):
    outputs = ("word",)

    def execute(self, tup: Any) -> Any:
        if tup[0] == "bad":
            raise FailedException("bad")
        if not tup.is_tick:
            yield [tup[0].upper()]


class Sink(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def topology(bolt: Any, feed: FeederSpout) -> Topology:
    builder = TopologyBuilder()
    words = builder.set_spout("words", feed)
    upper = builder.set_bolt("upper", bolt).shuffle_grouping(words)
    upper.add_configuration("topology.auto.task.hooks", ["hook_scene:Notes"])
    builder.set_bolt("sink", Sink(), 2).all_grouping(upper)
    return builder.create_topology()


def plain() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("upper", Basic()).shuffle_grouping("words")
    return builder.create_topology()
