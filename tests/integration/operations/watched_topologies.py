"""Topologies whose figures are looked at: a word count with metrics of its own, a transactional and a stateful one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tupletree import Backoff, BasicBolt, Spout, StatefulBolt, Topology, TopologyBuilder, TopologyContext
from tupletree.component import BasicCollector
from tupletree.transactional import (
    BatchBolt,
    Committer,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionCoordinator,
    TransactionEmitter,
)
from tupletree.tuples import Tuple


class Lines(Spout):
    """Emits one line after the other, a few hundred a second."""

    outputs = ["line"]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:
        self.count = 0
        context.register_metric("lines_emitted", lambda: self.count, "Lines emitted so far.")

    def next_tuple(self) -> None:
        for _ in range(25):
            self.count += 1
            self.collector.emit(["the quick brown fox"], self.count)
        time.sleep(0.05)

    blocking = True


class Split(BasicBolt):
    """Splits lines, and measures it."""

    outputs = ["word"]

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.words = context.register_counter("words", "Words found.")
        self.time = context.register_timer("split")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        with self.time.time():
            for word in tup["line"].split():
                self.words.add()
                collector.emit([word])


class Count(BasicBolt):
    """Counts words."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


class Total(StatefulBolt):
    """Counts lines in its state."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put("lines", self.state.get("lines", 0) + 1)
        self.collector.ack(tup)


def word_count() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines()).set_retry(Backoff())
    builder.set_bolt("split", Split()).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), 2).fields_grouping("split", ["word"])
    return builder.create_topology()


def stateful() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("total", Total()).shuffle_grouping("lines")
    return builder.create_topology()


class Steady(TransactionCoordinator):
    """Ten transactions a second."""

    def __init__(self) -> None:
        self.next_s = 0.0

    def is_ready(self) -> bool:
        return time.monotonic() >= self.next_s

    def initialize_transaction(self, txid: int, previous: Any) -> int:
        self.next_s = time.monotonic() + 0.1
        return txid


class One(TransactionEmitter):
    """One tuple a transaction: its number."""

    def emit_batch(self, attempt: Any, metadata: Any, collector: Any) -> None:
        collector.emit([metadata])


class Numbers(TransactionalSpout):
    """Transactions without end."""

    outputs = ["number"]

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        return Steady()

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        return One()


class Hold(BatchBolt, Committer):
    """Commits nothing while a file is there: it waits for it to go."""

    blocking = True

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: Any) -> None:
        pass

    def execute(self, tup: Tuple) -> None:
        pass

    def finish_batch(self) -> None:
        while os.path.exists(self.path):
            time.sleep(0.02)


def transactional(id: str, held_by: Path) -> Topology:
    """Commits nothing while the file ``held_by`` is there."""
    builder = TransactionalTopologyBuilder(id, "numbers", Numbers())
    builder.set_bolt("hold", Hold(held_by)).global_grouping("numbers")
    return builder.create_topology()
