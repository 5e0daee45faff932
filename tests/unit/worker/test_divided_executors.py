"""The tasks of a component share an executor until one of them blocks. Real threads, real time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from local_components import Do, DoBasic, Log
from run_loop_scene import ENOUGH_S, components_of, loops, tasks_of

from tupletree import Topology, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.engine import Engine

NAP_S = 0.15
"""Long enough for the watchdog to hurry a step."""
TASKS = 3


def topology(feeder: FeederSpout, bolt: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", bolt, parallelism=TASKS).shuffle_grouping("spout")
    return builder.create_topology()


def engine(cluster: LocalCluster) -> Engine:
    return cluster._find("t").engine


def feed_until(cluster: LocalCluster, feeder: FeederSpout, is_enough: Callable[[], bool]) -> int:
    """Feed numbers until a condition holds and all are acked; return how many."""
    fed = 0
    deadline_s = time.monotonic() + ENOUGH_S
    while not is_enough():
        assert time.monotonic() < deadline_s
        for _ in range(20):
            feeder.feed([fed], fed)
            fed += 1
        cluster.wait_until(lambda fed=fed: len(feeder.acked) >= fed - 10, ENOUGH_S)
    cluster.wait_until(lambda: len(feeder.acked) == fed, ENOUGH_S)
    return fed


def test_tasks_that_do_not_block_have_one_executor(cluster: LocalCluster) -> None:
    threads = Log()
    feeder = FeederSpout(["n"])
    cluster.submit("t", topology(feeder, DoBasic(lambda tup, collector: threads.append(threading.get_ident()))))
    for number in range(100):
        feeder.feed([number], number)
    cluster.wait_until(lambda: len(feeder.acked) == 100, ENOUGH_S)
    assert len(set(threads)) == 1
    assert [len(executor.tasks) for executor in engine(cluster).executors if executor.component_id == "bolt"] == [TASKS]


def test_tasks_that_sleep_again_and_again_get_threads_of_their_own_and_no_tuple_is_lost_or_repeated(
    cluster: LocalCluster,
) -> None:
    seen = Log()
    feeder = FeederSpout(["n"])

    def nap(tup: Any, collector: Any) -> None:
        seen.append((threading.get_ident(), tup["n"]))
        time.sleep(NAP_S)

    cluster.submit("t", topology(feeder, DoBasic(nap)))
    fed = feed_until(cluster, feeder, lambda: len({thread for thread, _ in seen[-TASKS * 4 :]}) == TASKS)
    assert Counter(number for _, number in seen) == Counter(range(fed))
    assert not feeder.failed
    executors = [executor for executor in engine(cluster).executors if executor.component_id == "bolt"]
    assert sorted(task.task_id for executor in executors for task in executor.tasks) == tasks_of(cluster, "bolt")
    assert len(executors) == TASKS


def test_bolts_with_explicit_acks_are_divided_too(cluster: LocalCluster) -> None:
    seen = Log()
    feeder = FeederSpout(["n"])

    def nap(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        time.sleep(NAP_S)
        collector.ack(tup)

    cluster.submit("t", topology(feeder, Do(nap)))
    fed = feed_until(cluster, feeder, lambda: sum(components_of(loop) == {"bolt"} for loop in loops(cluster)) == TASKS)
    assert Counter(seen) == Counter(range(fed))
