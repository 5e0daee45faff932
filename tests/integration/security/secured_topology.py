"""Counts numbers, a hundred per second. The first is never acked: a kill waits for it to the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tupletree import Bolt, Spout, TopologyBuilder
from tupletree.collector import BoltCollector, SpoutCollector
from tupletree.component import TopologyContext
from tupletree.topology import Topology
from tupletree.tuples import Tuple


class Numbers(Spout):
    outputs = ["number"]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.next = 0
        self.due_s = time.monotonic()

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.1
            for _ in range(10):
                self.next += 1
                self.collector.emit([self.next], msg_id=self.next)


class Sink(Bolt):
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        if tup["number"] > 1:
            self.collector.ack(tup)


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), parallelism=1)
    builder.set_bolt("sink", Sink(), parallelism=2).fields_grouping("numbers", ["number"])
    return builder.create_topology()
