"""Rebalances of a topology with very many tasks to any number of executors: refused or done; nobody else suffers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from fuzz_calls import ODD_INPUTS
from fuzz_neighbour import SILENCE_S, Neighbour
from fuzz_topologies import Swallow, Ticks, free_slots

from tupletree import Topology, TopologyBuilder
from tupletree.errors import UsageError
from tupletree.testing import DevCluster, wait_until

NAME, TASKS, MAX_EXECUTORS = "wide", 30_000, 10_000
EXECUTORS = (0, 1, 2, 3_000, MAX_EXECUTORS - 1, MAX_EXECUTORS, TASKS, TASKS + 1, 100_000, 2**31 - 1)
"""Of the bolt; its spout has one more."""
INPUTS = max(len(EXECUTORS), ODD_INPUTS // 5000)


def wide_topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("ticks", Ticks(None)).add_configuration("topology.sleep.spout.wait.strategy.time.ms", 10)
    builder.set_bolt("swallow", Swallow()).set_num_tasks(TASKS).shuffle_grouping("ticks")
    return builder.create_topology()


@pytest.mark.timeout(1800)
def test_rebalances_to_any_number_of_executors_harm_nobody(cluster: DevCluster, acks: Path) -> None:
    client, rng, counts = cluster.client, random.Random(f"rebalances {INPUTS}"), Counter[str]()
    pids = {one.name: one.pid for one in cluster.processes if one.role != "worker"}
    free_slots(cluster)
    with Neighbour(acks) as neighbour:
        client.submit(NAME, wide_topology(), {"topology.workers": 1})
        for at in range(INPUTS):
            executors, workers = EXECUTORS[at % len(EXECUTORS)], rng.choice((1, 2, 100_000))
            what = f"a rebalance to {executors} executors and {workers} workers"
            may_pass = 0 < executors < MAX_EXECUTORS and workers < 100_000
            try:
                client.rebalance(NAME, 0, workers=workers, executors={"swallow": executors})
            except UsageError as error:
                assert not may_pass, f"{what}: {error}"
                counts["refused"] += 1
            else:
                assert may_pass, f"{what} was accepted"
                counts["done"] += 1
                wait_until(lambda wanted=executors: runs(cluster, wanted), 120, what=what, pause_s=1)  # type: ignore[misc]
            neighbour.must_go_on(what)
        client.kill(NAME, 0)
        wait_until(lambda: len(client.list()) <= 2, 60, what="the topology is gone")
    print("rebalances", dict(counts), f"longest silence of the neighbour {neighbour.longest_s:.2f} s")
    assert neighbour.longest_s < SILENCE_S
    assert {one.name: one.pid for one in cluster.processes if one.role != "worker"} == pids, "a daemon ended"


def runs(cluster: DevCluster, executors: int) -> bool:
    """Whether it runs with so many executors of its bolt, and one of its spout."""
    found = cluster.client.describe(NAME)
    assigned = sum(len(one.executors) for one in found.assignment.workers)
    summary = found.summary
    return assigned == executors + 1 and 0 < summary.workers_used == summary.workers_ready
