"""A topology with hooks of workers and tasks, which write files; submitted with this module as its code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Bolt, Spout, Topology, TopologyBuilder
from tupletree.hooks import EventLogger, TaskHook, WorkerHook

WANTED = 200


class Marks(WorkerHook):
    """Leaves a file per worker: what happened, and the process."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def start(self, conf: Any, context: Any) -> None:
        if Path(self.directory, "broken").exists():
            raise ValueError("the file 'broken' is there")
        self._note(f"start {len(context.local_tasks)}")

    def shutdown(self) -> None:
        self._note("shutdown")

    def _note(self, what: str) -> None:
        with open(Path(self.directory, f"worker-{os.getpid()}"), "a", encoding="utf-8") as file:
            file.write(f"{what}\n")


class Sums(TaskHook):
    """Counts the events of a task as metrics, where the component's own are."""

    def prepare(self, conf: Any, context: Any) -> None:
        self.counts = {
            name: context.register_counter(f"hook_{name}")
            for name in ("emits", "targets", "executions", "acks", "fails", "spout_acks", "spout_fails")
        }

    def emit(self, info: Any) -> None:
        self.counts["emits"].add()
        self.counts["targets"].add(len(info.target_tasks))

    def bolt_execute(self, info: Any) -> None:
        self.counts["executions"].add()

    def bolt_ack(self, info: Any) -> None:
        self.counts["acks"].add()

    def bolt_fail(self, info: Any) -> None:
        self.counts["fails"].add()

    def spout_ack(self, info: Any) -> None:
        self.counts["spout_acks"].add()

    def spout_fail(self, info: Any) -> None:
        self.counts["spout_fails"].add()
        raise ValueError(f"hook saw message {info.message_id} fail")


class Lines(EventLogger):
    """Writes sampled tuples as lines of JSON, in a file per worker; raises for number 7."""

    def prepare(self, conf: Any, context: Any) -> None:
        self.file = open(Path(conf["logger.directory"], f"tuples-{os.getpid()}"), "a", encoding="utf-8")  # noqa: SIM115

    def log(self, sampled: Any) -> None:
        if sampled.values == (7,):
            raise ValueError("no number 7")
        self.file.write(json.dumps(sampled._asdict()) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.write("closed\n")
        self.file.close()


class Numbers(Spout):
    """Emits the numbers below ``WANTED`` once."""

    outputs = ("number",)

    def setup(self) -> None:
        self.left = list(range(WANTED))

    def next_tuple(self) -> None:
        if self.left:
            number = self.left.pop()
            self.collector.emit([number], number)

    def fail(self, msg_id: Any) -> None:
        pass


class Forward(Bolt):
    """Acks explicitly; fails number 7."""

    outputs = ("number",)

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup["number"]], tup)
        if tup["number"] == 7:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class Sink(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def topology(directory: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("forward", Forward(), 2).shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink(), 2).all_grouping("forward")
    builder.add_worker_hook(Marks(directory))
    return builder.create_topology()
