"""Memory of the pairs of tasks of two components: of those that never exchanged a tuple, and of those that did.

    source (one task) --> senders (n tasks) ==> receivers (n tasks)     n² pairs, half of them between the workers
    source (one task) --> senders (n tasks)
                     `--> receivers (n tasks)                           as many tasks, 2 n pairs

The memory of an idle pair is the difference of both topologies, before the source emits, by n² - n. Then each sender
sends a few tuples to each receiver, and the memory grows by that of a pair that talked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any, Final

from bench._flow import GO, Source, end, tell, wait_told
from bench._flow import Run as FlowRun
from bench.growth.shapes import TEXT, Measure, Pass
from bench.growth.steady import START_S, Times, check
from bench.memory import resident_mb
from tupletree import Topology, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

ROUNDS: Final = 4  # tuples of each pair
WORKERS: Final = 2


class Few(Source):
    """Emits a constant, ``count`` times."""

    outputs = ("value",)

    def make_rows(self) -> list[list[Any]]:
        return [[TEXT]]


def measure(cluster: DevCluster, tasks: int, times: Times) -> dict[str, Any]:
    """Return the bytes of a pair of ``tasks`` sending and receiving tasks each.

    Raises:
        WrongResultError: a tuple was lost on its way.
    """
    apart = _memory_mb(cluster, tasks, False, times)
    paired = _memory_mb(cluster, tasks, True, times)
    pairs = tasks * tasks
    return {
        "idle_bytes_per_pair": _bytes(paired["idle"] - apart["idle"], pairs - tasks),
        "talked_bytes_per_pair": _bytes(paired["talked"] - paired["idle"], pairs),
        "idle_workers_mb": round(paired["idle"]),
        "talked_workers_mb": round(paired["talked"]),
    }


def _bytes(difference_mb: float, pairs: int) -> int:
    return round(difference_mb * 1024**2 / pairs)


def _memory_mb(cluster: DevCluster, tasks: int, paired: bool, times: Times) -> Mapping[str, float]:
    tuples = ROUNDS * tasks
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as directory:
        conf = {"topology.workers": WORKERS, "topology.acker.executors": 1, "topology.max.spout.pending": 50}
        run = FlowRun("channels", _topology(directory, tasks, paired, tuples), conf, directory, 1, (), 0)
        cluster.client.submit(run.name, run.topology, run.conf)
        try:
            wait_told(cluster, run, ["source-0-opened"], START_S)
            wait_until(lambda: len(_workers(cluster)) == WORKERS, START_S, what="the workers run")
            idle = _resident_mb(cluster)
            tell(directory, GO, {})
            wait_told(cluster, run, ["source-0"], times.timeout_s)
            copies = tasks * tuples if paired else tuples
            check(directory, {"executed": copies, "length": copies * len(TEXT)}, times.timeout_s)
            return {"idle": idle, "talked": _resident_mb(cluster)}
        finally:
            end(cluster, run.name)


def _topology(directory: str, tasks: int, paired: bool, tuples: int) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("source", Few(directory, tuples))
    builder.set_bolt("senders", Pass(), tasks).shuffle_grouping("source")
    receivers = builder.set_bolt("receivers", Measure(directory), tasks)
    if paired:
        receivers.all_grouping("senders")
    else:
        receivers.shuffle_grouping("source")
    return builder.create_topology()


def _workers(cluster: DevCluster) -> list[int]:
    return [one.pid for one in cluster.processes if one.role == "worker"]


def _resident_mb(cluster: DevCluster) -> float:
    """Return the memory of the workers once it has not grown for three looks."""
    pids = _workers(cluster)
    sizes: list[float] = []

    def is_still() -> bool:
        sizes.append(sum(resident_mb(pid) for pid in pids))
        return len(sizes) > 3 and max(sizes[-3:]) - sizes[-4] < 0.1

    wait_until(is_still, START_S, what="the workers stop growing", pause_s=0.3)
    return sizes[-1]
