"""Topologies with two branches in a local cluster, and the run loops that execute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tupletree import Spout, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.execution.run_loop import RunLoop

ENOUGH_S = 60


def loops(cluster: LocalCluster) -> Sequence[RunLoop]:
    return cluster._find("t").engine.loops


def components_of(loop: RunLoop) -> set[str]:
    return {executor.component_id for executor in loop.executors}


def emitted_by(cluster: LocalCluster, component: str) -> int:
    """Tuples handed over by the tasks of a component."""
    statistics = cluster._find("t").engine.statistics()
    return sum(stream.transferred for task in statistics if task.component_id == component for stream in task.streams)


def tasks_of(cluster: LocalCluster, component: str) -> list[int]:
    executors = cluster._find("t").engine.executors
    return [task.task_id for executor in executors if executor.component_id == component for task in executor.tasks]


def has_turned(cluster: LocalCluster, since: dict[RunLoop, int]) -> bool:
    """True if each of these loops has made ten rounds more."""
    cluster._find("t").engine.wake()
    return all(loop.turns > turns + 10 for loop, turns in since.items())


def two_branches(feeder: Spout, left: Any, right: Any) -> TopologyBuilder:
    """spout -> left by stream "left", spout -> right by stream "right"."""
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("left", left).shuffle_grouping("spout", "left")
    builder.set_bolt("right", right).shuffle_grouping("spout", "right")
    return builder


def feeder_of_two() -> FeederSpout:
    return FeederSpout({"left": ["n"], "right": ["n"]})
