"""The topologies that run while a cluster is fuzzed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.testing.wait import wait_until

if TYPE_CHECKING:
    from tupletree.testing import DevCluster

STEADY, VICTIM = "steady", "victim"
INTERVAL_S = 0.02


class Ticks(Spout):
    """Emits a number every twenty milliseconds, and adds a byte to a file for each that is acked."""

    outputs = ("number",)

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.number = 0
        self.due_s = time.monotonic()
        self.file = None if self.path is None else os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + INTERVAL_S
            self.number += 1
            self.collector.emit([self.number], self.number)

    def ack(self, msg_id: Any) -> None:
        if self.file is not None:
            os.write(self.file, b".")


class Swallow(BasicBolt):
    """Takes anything: what fuzzing gets as far as here must not matter."""

    def execute(self, tup: Any, collector: Any) -> None:
        pass


def _topology(path: Path | None) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("ticks", Ticks(path)).add_configuration("topology.sleep.spout.wait.strategy.time.ms", 10)
    builder.set_bolt("swallow", Swallow(), parallelism=2).shuffle_grouping("ticks")
    return builder.create_topology()


def steady_topology(path: Path) -> Any:
    """The one whose acks show that all is well."""
    return _topology(path)


def victim_topology() -> Any:
    """One that may be killed, rebalanced, stopped."""
    return _topology(None)


def free_slots(cluster: DevCluster) -> None:
    """Give back what slots the victim has: other inputs may have rebalanced it to any number of workers."""
    cluster.client.rebalance(VICTIM, 0, workers=1)
    wait_until(lambda: cluster.client.describe(VICTIM).summary.workers_used == 1, 60, what="the victim has one worker")
