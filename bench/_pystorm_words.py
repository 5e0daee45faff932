"""The bolts of the comparison with Storm, hosted: the classes that Storm's processes run, in the worker's own."""

from __future__ import annotations

from typing import Any

from bench._flow import Witness
from bench.peers.programs import storm_bolts
from tupletree import Spout, Topology, TopologyBuilder
from tupletree.multilang import PystormBolt


class Count(storm_bolts.Count):
    """Same as under Storm, but reports as the sinks of this bench do."""

    def initialize(self, conf: Any, context: Any) -> None:
        self.begin()
        index = sorted(int(id) for id, name in context["task->component"].items() if name == "count")
        name = f"count-{index.index(self.task_id)}"
        Witness(conf["bench.directory"], name, lambda: self.words, lambda: self.counts).start()


def topology(spout: Spout, spouts: int, tasks: int) -> Topology:
    """Return the topology that Storm's row has."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", spout, spouts)
    split = builder.set_bolt("split", PystormBolt(storm_bolts.Split), tasks)
    (split.local_or_shuffle_grouping if spouts > 1 else split.shuffle_grouping)("sentences")
    builder.set_bolt("count", PystormBolt(Count), tasks).fields_grouping("split", ["word"])
    return builder.create_topology()
