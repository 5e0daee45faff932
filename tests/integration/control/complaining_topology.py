"""A topology that handles five words and reports an error for one of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector, SpoutCollector
from tupletree.component import TopologyContext

WORDS = ["one", "two", "bad", "four", "five"]


class Words(Spout):
    outputs = ["word"]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.left = list(WORDS)

    def next_tuple(self) -> None:
        if self.left:
            word = self.left.pop()
            self.collector.emit([word], msg_id=word)

    def fail(self, msg_id: str) -> None:
        self.left.append(msg_id)


class Complain(BasicBolt):
    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        logging.getLogger("complaining").info("read the word %s", tup["word"])
        if tup["word"] == "bad":
            collector.report_error(ValueError("that is no word"))


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", Words())
    builder.set_bolt("complain", Complain()).shuffle_grouping("words")
    return builder.create_topology()
