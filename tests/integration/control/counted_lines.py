"""Lines of files, counted in a state by line, and in another by a key that no grouping sends."""

from __future__ import annotations

from typing import Any

from tupletree import StatefulBolt, Topology, TopologyBuilder
from tupletree.connectors.files import FileSpout


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state.add(tup["line"], 1)
        self.collector.ack(tup)


class Total(StatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state.add("total", 1)
        self.collector.ack(tup)


def counted_lines(files: str, readers: int = 2, counters: int = 2) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", FileSpout(files), readers)
    builder.set_bolt("count", Count(), counters).fields_grouping("lines", ["line"])
    builder.set_bolt("total", Total()).shuffle_grouping("lines")
    return builder.create_topology()
