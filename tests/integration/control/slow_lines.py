"""Lines of files, counted by a bolt that waits a while for each."""

from __future__ import annotations

import time
from typing import Any

from tupletree import StatefulBolt, Topology, TopologyBuilder
from tupletree.connectors.files import FileSpout


class SlowCount(StatefulBolt):
    blocking = True

    def execute(self, tup: Any) -> None:
        time.sleep(0.01)
        self.state.add(tup["line"], 1)
        self.collector.ack(tup)


def slow_lines(files: str, executors: int = 1, tasks: int = 4) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", FileSpout(files))
    bolt = builder.set_bolt("count", SlowCount(), executors).set_num_tasks(tasks)
    bolt.fields_grouping("lines", ["line"])
    return builder.create_topology()
