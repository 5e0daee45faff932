"""A topology whose states count messages, with aligned checkpoints."""

from __future__ import annotations

from typing import Any

from tupletree import BasicStatefulBolt, Topology, TopologyBuilder
from tupletree.connectors.log_spout import LogSpout


class Tally(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tup["text"]] += 1


def tallying(spout: LogSpout) -> Topology:
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", spout, 2)
    builder.set_bolt("tally", Tally(), 2).fields_grouping(messages, ["text"])
    return builder.create_topology()
