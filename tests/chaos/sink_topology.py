"""Lines of a text, written once each to a table, which logs every write.

text (spout) --shuffle--> measure --fields--> out (two tasks)
"""

from __future__ import annotations

from stateful_topology import SPOUT_TASKS, PositionedLines

from tupletree import BasicBolt, TopologyBuilder
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt

COLUMNS = {"number": "bigint", "length": "bigint"}


class Measure(BasicBolt):
    outputs = ("number", "length")

    def execute(self, tup, collector):
        collector.emit([tup["number"], len(tup["line"])])


def sink_topology(directory, sink, *, rate, lines):
    builder = TopologyBuilder()
    builder.set_spout("text", PositionedLines(str(directory), rate / SPOUT_TASKS, lines), SPOUT_TASKS)
    builder.set_bolt("measure", Measure(), 2).shuffle_grouping("text")
    builder.set_bolt("out", ExactlyOnceSinkBolt(sink), 2).fields_grouping("measure", ["number"])
    return builder.create_topology()
