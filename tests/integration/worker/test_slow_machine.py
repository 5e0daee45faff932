"""A shuffle over two worker processes, one of which is slow: the stream runs at the rate of both together."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import pytest

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME, TASKS = "slow-machine", 4
SLOW_S = 0.02
HERE = "THE_SPOUT_IS_HERE"


class Numbers(Spout):
    """Emits numbers without end, and marks its process."""

    outputs = ("number",)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        os.environ[HERE] = "1"

    def next_tuple(self) -> None:
        for number in range(10):
            self.collector.emit([number])


class Executes(BasicBolt):
    """Takes its time, unless the spout runs in the same process."""

    blocking = True

    def setup(self) -> None:
        self.executed = 0
        self.context.register_status(lambda: {"executed": self.executed})

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if HERE not in os.environ:
            time.sleep(SLOW_S)
        self.executed += 1


def executed(cluster: DevCluster) -> list[int]:
    """The tuples that each task has executed, fewest first."""
    components = cluster.client.describe(NAME).components
    found = [task.status for one in components if one.component_id == "executes" for task in one.statuses]
    return sorted(status["executed"] for status in found if status)


@pytest.mark.nightly
def test_a_stream_is_not_held_up_by_tasks_on_a_slow_machine_which_get_what_they_can_execute() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("executes", Executes(), TASKS).shuffle_grouping("numbers")
    conf = {"topology.workers": 2, "topology.acker.executors": 0}
    enough = 60 * TASKS / SLOW_S * 5  # five times what tasks that take turns could execute in the time below
    with DevCluster(slots=2) as cluster:
        cluster.client.submit(NAME, builder.create_topology(), conf)
        wait_until(lambda: sum(executed(cluster)) > enough, 60, what="the tasks of the quick worker go on")
        counts = executed(cluster)
        assert len(counts) == TASKS
        assert counts[0] > 0 and counts[1] < counts[2] / 10
        wait_until(lambda: executed(cluster)[0] > counts[0] + 100, 60, what="the slow tasks are not left out")
