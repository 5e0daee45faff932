"""Cost of an open page for nimbus: share of a core with many topologies, without a page and with one.

    python -m bench.ui_cost --topologies 20 --seconds 60 --json

Each topology runs in a worker of its own, emits a few tuples a second, and has ``--tasks`` tasks, which all report
every second. An open page is simulated by a browser's requests, every two seconds: all requests of the first view or,
with ``--page topology``, of the view of one topology. Processor time is read from /proc.
"""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench import _cli
from bench._processes import cpu_s, peak_rss_mb
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

PERIOD_S: Final = 2.0  # refresh period of the page
WARM_UP_S: Final = 10.0
PAGES: Final[Mapping[str, Sequence[str]]] = {
    "cluster": (
        "cluster/summary",
        "cluster/overview",
        "nimbus/summary",
        "supervisor/summary",
        "topology/summary",
        "acker/summary",
        "cluster/health",
    ),
    "topology": (
        "nimbus/summary",
        "topology/{id}?window=600",
        "topology/{id}/visualization?window=600",
        "topology/{id}/series",
        "cluster/health",
    ),
}


class Seldom(Spout):
    """Emits a few times a second."""

    outputs = ("number",)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.number = 0
        self.next_s = 0.0

    def next_tuple(self) -> None:
        if time.monotonic() >= self.next_s:
            self.next_s = time.monotonic() + 0.2
            self.number += 1
            self.collector.emit([self.number], self.number)


class Nothing(BasicBolt):
    """Receives tuples and does nothing."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def topology(tasks: int) -> Topology:
    """Return a topology of a spout, and a bolt with all other tasks."""
    builder = TopologyBuilder()
    builder.set_spout("seldom", Seldom())
    builder.set_bolt("nothing", Nothing()).set_num_tasks(max(1, tasks - 1)).shuffle_grouping("seldom")
    return builder.create_topology()


def ask(base: str, paths: Sequence[str]) -> int:
    """Request everything of a page; return the number of bytes received."""
    size = 0
    for path in paths:
        with urllib.request.urlopen(f"{base}/api/v1/{path}", timeout=30) as reply:
            size += len(reply.read())
    return size


def poll(base: str, paths: Sequence[str], seconds: float) -> tuple[int, float]:
    """Simulate an open page for some seconds. Return the bytes of one round, and the time of the longest round."""
    end_s, size, longest_s = time.monotonic() + seconds, 0, 0.0
    while (began_s := time.monotonic()) < end_s:
        size = ask(base, paths)
        longest_s = max(longest_s, time.monotonic() - began_s)
        time.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))
    return size, longest_s


def share(pid: int, before_s: float, began_s: float) -> float:
    """Return the CPU use of a process since ``began_s``, in percent of a core."""
    return round(100 * (cpu_s([pid]) - before_s) / (time.monotonic() - began_s), 2)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.topologies) as cluster:
        for number in range(arguments.topologies):
            cluster.client.submit(f"seldom-{number}", topology(arguments.tasks))
        wait_until(
            lambda: sum(one.workers_ready for one in cluster.client.list()) == arguments.topologies,
            60 + 10 * arguments.topologies,
            what="every topology runs",
        )
        nimbus = next(one for one in cluster.processes if one.role == "nimbus")
        base = f"http://127.0.0.1:{nimbus.http_port}"
        topology_id = cluster.client.list()[0].record.id
        paths = [path.replace("{id}", topology_id) for path in PAGES[arguments.page]]
        ask(base, paths)
        time.sleep(WARM_UP_S)
        before_s, began_s = cpu_s([nimbus.pid]), time.monotonic()
        time.sleep(arguments.seconds)
        without = share(nimbus.pid, before_s, began_s)
        before_s, began_s = cpu_s([nimbus.pid]), time.monotonic()
        size, longest_s = poll(base, paths, arguments.seconds)
        with_page = share(nimbus.pid, before_s, began_s)
        return {
            "without_page_percent": without,
            "with_page_percent": with_page,
            "page_bytes": size,
            "longest_round_ms": round(1000 * longest_s, 1),
            "nimbus_peak_mb": round(peak_rss_mb([nimbus.pid]), 1),
            "tasks": arguments.topologies * max(2, arguments.tasks),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--topologies", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=3, help="tasks of each topology")
    parser.add_argument("--seconds", type=float, default=60, help="duration without the page, and again with the page")
    parser.add_argument("--page", choices=sorted(PAGES), default="cluster")


if __name__ == "__main__":
    sys.exit(_cli.run("ui_cost", __doc__, add_arguments, measure))
