"""Memory of workers and ackers while a bolt is far slower than its spout.

    python -m bench.memory --seconds 60 --json

    numbers (spout, as fast as it may) --> relay --> sleeper (two tasks, sleeps for each tuple)

in two workers, so that tuples wait on either side of the network: the relay and one sleeper are in one worker, the
spout and the other sleeper in the other. If tuples are tracked, ``topology.max.spout.pending`` bounds the tuples in
flight; with ``--ackers 0`` back-pressure alone bounds them. Once all queues are full, the resident memory of every
worker and acker is read every second. ``slope_mb_per_min`` is the slope of the readings after ``--warm-up`` seconds.

    python -m bench.memory --tuple-bytes 1000000 --tuples 300 --json

instead sends large tuples from a spout in one worker to a bolt in the other, as fast as it may, and reads the memory
until all tuples are acked.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import _cli, _large
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.client import TaskStats, TopologyDescription
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, ProcessInfo, wait_until
from tupletree.tuples import Tuple
from tupletree.v1 import nimbus_pb2

NAME: Final = "memory"
WORKERS: Final = 2
TEXT_CHARACTERS: Final = 200


class Numbers(Spout):
    """Emits at every ``next_tuple``, each time with a different text."""

    outputs = ("number", "text")

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.next = 0
        self.again: deque[int] = deque()

    def next_tuple(self) -> None:
        number = self.again.popleft() if self.again else self.next
        self.next = max(self.next, number + 1)
        self.collector.emit([number, f"{number:0{TEXT_CHARACTERS}}"], number)

    def fail(self, msg_id: Any) -> None:
        self.again.append(msg_id)


class Relay(BasicBolt):
    """Passes tuples on."""

    outputs = ("number", "text")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit(tup.values)


class Sleeper(BasicBolt):
    """Sleeps for each tuple."""

    def __init__(self, sleep_s: float) -> None:
        self.sleep_s = sleep_s

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        time.sleep(self.sleep_s)


def topology(sleep_s: float) -> Topology:
    """numbers → relay → two sleepers."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("relay", Relay()).shuffle_grouping("numbers")
    builder.set_bolt("sleeper", Sleeper(sleep_s), WORKERS).shuffle_grouping("relay")
    return builder.create_topology()


def component(reply: TopologyDescription, name: str) -> TaskStats:
    """Return the statistics of a component, summed over its tasks."""
    return next(
        (one.total for one in reply.components if one.component_id == name), TaskStats.of(nimbus_pb2.TaskStats())
    )


def is_full(cluster: DevCluster, pending: int | None) -> bool:
    """True if the topology is full: ``pending`` tuples are pending, or, without tracking, both bolts are congested."""
    reply = cluster.client.describe(NAME)
    if pending is None:
        return component(reply, "sleeper").congested and component(reply, "relay").congested
    return component(reply, "numbers").pending >= pending


def watched(cluster: DevCluster) -> dict[str, int]:
    """Return the process id of each worker and acker: worker-1, worker-2, acker-1."""

    def find() -> list[ProcessInfo]:
        return [process for process in cluster.processes if process.role in ("worker", "acker")]

    wait_until(lambda: sum(process.role == "worker" for process in find()) == WORKERS, 60, what="the workers run")
    found = find()
    return {
        f"{role}-{number}": process.pid
        for role in ("worker", "acker")
        for number, process in enumerate((one for one in found if one.role == role), 1)
    }


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process. Raises OSError if it is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def follow(
    pids: Mapping[str, int], seconds: float, every_s: float = 1.0, clock: Callable[[], float] = time.monotonic
) -> dict[str, list[tuple[float, float]]]:
    """Return (second, MB) samples of each process, at even intervals."""
    began_s = clock()
    readings: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    for number in range(int(seconds / every_s) + 1):
        time.sleep(max(0.0, began_s + number * every_s - clock()))
        for name, pid in pids.items():
            readings[name].append((clock() - began_s, resident_mb(pid)))
    return readings


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the best-fit line (least squares)."""
    count = len(points)
    mean_x, mean_y = (sum(point[axis] for point in points) / count for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    if arguments.tuple_bytes:
        return measure_large(arguments)
    conf = {
        "topology.workers": WORKERS,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    result: dict[str, Any] = {}
    with DevCluster(slots=WORKERS, ackers=1) as cluster:
        cluster.client.submit(NAME, topology(arguments.sleep_ms / 1000), conf)
        pids = watched(cluster)
        began_s = time.monotonic()
        pending = arguments.pending if arguments.ackers else None
        wait_until(lambda: is_full(cluster, pending), 60, what="everything is full")
        result["full_after_s"] = round(time.monotonic() - began_s, 1)
        for name, points in follow(pids, arguments.seconds).items():
            sizes = [size for _, size in points]
            level = [point for point in points if point[0] >= arguments.warm_up]
            result[name] = {
                "first_mb": round(sizes[0], 1),
                "last_mb": round(sizes[-1], 1),
                "max_mb": round(max(sizes), 1),
                "slope_mb_per_min": round(60 * slope(level), 2),
            }
        reply = cluster.client.describe(NAME)
        result["executed"] = component(reply, "sleeper").executed
        result["timeouts"] = component(reply, "numbers").timeouts
    return result


def measure_large(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure large tuples on a fresh cluster: seconds until all are acked, and the peak memory of each process."""
    count, size = arguments.tuples, arguments.tuple_bytes
    most: dict[str, float] = {}
    with DevCluster(slots=WORKERS, ackers=1) as cluster:
        cluster.client.submit(_large.NAME, _large.topology(count, size, arguments.burst), {"topology.workers": WORKERS})
        pids = watched(cluster)
        began_s = time.monotonic()
        stats = _large.spout_stats(cluster)
        while stats.acked < count and time.monotonic() - began_s < arguments.seconds:
            time.sleep(0.05)
            most = {name: max(most.get(name, 0.0), resident_mb(pid)) for name, pid in pids.items()}
            stats = _large.spout_stats(cluster)
        seconds = time.monotonic() - began_s
    figures = {f"{name}_max_mb": round(held, 1) for name, held in most.items()}
    return {"seconds": round(seconds, 1), "acked": stats.acked, "failed": stats.failed + stats.timeouts, **figures}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=10, help="seconds left out of the slope")
    parser.add_argument("--pending", type=int, default=10_000, help="topology.max.spout.pending")
    parser.add_argument("--ackers", type=int, default=1, help="topology.acker.executors; 0: not tracked")
    parser.add_argument("--tuple-bytes", type=int, default=0, help="send large tuples of this size instead")
    parser.add_argument("--tuples", type=int, default=3000, help="number of large tuples")
    parser.add_argument("--burst", type=int, default=1, help="large tuples that the spout emits per call")
    parser.add_argument("--sleep-ms", type=float, default=1.0, help="milliseconds that the bolt sleeps per tuple")


if __name__ == "__main__":
    sys.exit(_cli.run("memory_large" if "--tuple-bytes" in sys.argv else "memory", __doc__, add_arguments, measure))
