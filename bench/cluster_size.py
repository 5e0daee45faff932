"""The control plane of a large cluster: a real nimbus and ZooKeeper, and simulated supervisors and workers.

    python -m bench.cluster_size --supervisors 1000 --topologies 500 --workers 8 --json

Processes of ``bench._machines`` play the machines: presences in ZooKeeper, and a stream of reports over gRPC from each
worker, every second. No tuple flows. Each topology has ``--workers`` workers with ``--executors`` executors each, of
which a share ``--busy`` has processed tuples since the last report. A supervisor has ``--slots`` slots. Figures:

``nimbus_cores``: processor time of the leader per second while all workers report, ``report_ms`` the same per report.
``decide_ms``, ``decide_all_ms``: processor time of a decision when nothing has changed, and when every topology must be
looked at. ``load_ms``: processor time of a cycle's reads; ``cycle_ms``: the duration of a whole cycle.
``supervisor_ms``, ``view_ms``: processor time that a supervisor takes for its regular snapshot, and a worker of the
large topology for its. ``placed_s``, ``started_s``: from the submission of a topology of ``--large`` executors until it
is assigned, and until all its workers have reported. ``moved_s``: from the log line of a lost machine's silent worker
until the topology's new assignment, the longest. ``next_leader_s``: from kill -9 of the leader until the next one has
finished its first cycle, ``next_list_s`` until it lists all topologies. ``assignment_bytes``: the assignment of 2,000
workers and 10,000 executors as it is stored while an acker drains. ``others_cores``: what else kept the machine busy.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench import _cli, _control
from bench._processes import busy_s, cpu_s
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree._coord.caching import CachingStore
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import Store
from tupletree.client import TopologySummary
from tupletree.component import BasicCollector
from tupletree.errors import UnavailableError
from tupletree.testing import DevCluster, ProcessInfo, wait_until
from tupletree.tuples import Tuple

LARGE: Final = "large"
SUBMITTERS: Final = 2  # submissions under way together
_SILENT: Final = re.compile(r"^(\S+) \S+ \S+ worker\.silent topology=(\S+) slot=(\S+):\d+$", re.MULTILINE)
_WRITTEN: Final = re.compile(r"^(\S+) \S+ \S+ assignment\.written topology=(\S+) ", re.MULTILINE)
_START_S: Final = 900.0


class Words(Spout):
    """Emits nothing: its workers are simulated."""

    outputs = ("word",)

    def next_tuple(self) -> None:
        pass


class Count(BasicBolt):
    """Never executed."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def topology(executors: int) -> Topology:
    """Return a spout and a bolt with so many executors together."""
    builder = TopologyBuilder()
    builder.set_spout("words", Words())
    builder.set_bolt("count", Count(), max(1, executors - 1)).fields_grouping("words", ["word"])
    return builder.create_topology()


class Machines:
    """The processes that play the machines."""

    def __init__(self, cluster: DevCluster, arguments: argparse.Namespace) -> None:
        self._share = -(-arguments.supervisors // arguments.processes)
        self._processes: list[subprocess.Popen[str]] = []
        for first in range(0, arguments.supervisors, self._share):
            given = {
                "conf": cluster.conf,
                "first": first,
                "count": min(self._share, arguments.supervisors - first),
                "slots": arguments.slots,
                "busy": arguments.busy,
            }
            command = [sys.executable, "-m", "bench._machines", json.dumps(given)]
            self._processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "registered\n":
                raise _cli.WrongResultError("the simulated machines did not register")

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def lose(self, machine: str) -> None:
        """End a machine without a word to anybody."""
        process = self._processes[int(machine.rpartition("-")[2]) // self._share]
        assert process.stdin is not None
        process.stdin.write(f"lose {machine}\n")
        process.stdin.flush()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


class Measured:
    """One run on one cluster: the steps in the order of ``measure``."""

    def __init__(self, cluster: DevCluster, store: Store, machines: Machines, arguments: argparse.Namespace) -> None:
        self._cluster = cluster
        self._store = store
        self._machines = machines
        self._arguments = arguments

    def start(self) -> dict[str, Any]:
        """Submit the topologies and wait until all workers report."""
        given = self._arguments
        began_s = time.monotonic()
        built = topology(given.workers * given.executors)
        conf = {"topology.workers": given.workers}
        submit = self._cluster.client.submit
        with ThreadPoolExecutor(SUBMITTERS) as pool:
            pending = [pool.submit(submit, f"t{number}", built, conf) for number in range(given.topologies)]
            for one in pending:
                one.result()
        wanted = given.topologies * given.workers
        wait_until(lambda: self._ready() >= wanted, _START_S, what=f"{wanted} workers report")
        return {"all_started_s": round(time.monotonic() - began_s, 1)}

    def steady(self) -> dict[str, Any]:
        """Measure the leader while everything reports and nothing changes."""
        leader, zookeeper = self._leader(), self._of_role("zookeeper")
        pids = [[leader.pid], [zookeeper.pid], self._machines.pids]
        began_s, busy_before_s = time.monotonic(), busy_s()
        before, counted = [cpu_s(one) for one in pids], self._counted(leader)
        time.sleep(self._arguments.seconds)
        took_s = time.monotonic() - began_s
        nimbus, zoo, players = (after - one for after, one in zip(map(cpu_s, pids), before, strict=True))
        reports, cycle_s, cycles = (a - b for a, b in zip(self._counted(leader), counted, strict=True))
        others_s = busy_s() - busy_before_s - nimbus - zoo - players
        return {
            "nimbus_cores": round(nimbus / took_s, 3),
            "reports_per_s": round(reports / took_s),
            "report_ms": round(1000 * nimbus / max(1, reports), 3),
            "cycle_ms": round(1000 * cycle_s / max(1, cycles), 1),
            "zookeeper_cores": round(zoo / took_s, 3),
            "machines_cores": round(players / took_s, 3),
            "others_cores": round(max(0.0, others_s) / took_s, 2),
        }

    def large(self) -> dict[str, Any]:
        """Submit the large topology and wait until its workers have reported."""
        given = self._arguments
        built = topology(given.large)
        began_s = time.monotonic()
        topology_id = self._cluster.client.submit(LARGE, built, {"topology.workers": given.large_workers})
        wait_until(lambda: self._store.assignment(topology_id), 60, what="the large topology is placed")
        placed_s = time.monotonic() - began_s
        wait_until(lambda: self._ready(LARGE) >= given.large_workers, 120, what="the large topology has started")
        return {"placed_s": round(placed_s, 2), "started_s": round(time.monotonic() - began_s, 2)}

    def lost_machine(self) -> dict[str, Any]:
        """Lose the machine with the most workers, and wait until they have another place."""
        assignments = self._store.assignments()
        slots = [(one.supervisor_id, key) for key, a in assignments.items() for one in a.value.workers]
        by_machine = {name: [key for one, key in slots if one == name] for name in {one for one, _ in slots}}
        machine = max(by_machine, key=lambda one: (len(by_machine[one]), one))
        concerned = set(by_machine[machine])
        log = Path(self._leader().log_path)
        skipped = log.stat().st_size
        self._machines.lose(machine)

        def is_moved() -> bool:
            now = [self._store.assignment(one) for one in concerned]
            return all(one and machine not in {w.supervisor_id for w in one.value.workers} for one in now)

        wait_until(is_moved, 120, what=f"the workers of {machine} are placed anew")
        text = log.read_bytes()[skipped:].decode()
        silent = {found[2]: _unix_s(found[1]) for found in _SILENT.finditer(text) if found[3] == machine}
        written = {found[2]: _unix_s(found[1]) for found in _WRITTEN.finditer(text)}
        moved = [written[one] - silent[one] for one in concerned if one in silent and one in written]
        return {"moved_workers": len(by_machine[machine]), "moved_s": round(max(moved), 2) if moved else None}

    def next_leader(self) -> dict[str, Any]:
        """Kill the leader, and wait until the next one has finished its first cycle and lists all topologies."""
        wanted = self._arguments.topologies + 1
        leader = self._leader()
        index = int(leader.name.rpartition("-")[2])
        self._cluster.kill("nimbus", index)
        began_s = time.monotonic()
        (other,) = [one for one in self._cluster.processes if one.role == "nimbus"]
        wait_until(lambda: self._counted(other)[2] >= 1, 120, what="the next leader's first cycle")
        led_s = time.monotonic() - began_s
        wait_until(lambda: len(self._list()) >= wanted, 120, what="the next leader lists all topologies")
        listed_s = time.monotonic() - began_s
        ready = self._arguments.topologies * self._arguments.workers
        wait_until(lambda: self._ready() >= ready, 120, what="all workers report to the next leader")
        return {
            "next_leader_s": round(led_s, 2),
            "next_list_s": round(listed_s, 2),
            "next_reports_s": round(time.monotonic() - began_s, 1),
        }

    def _ready(self, name: str = "") -> int:
        return sum(one.workers_ready for one in self._list() if not name or one.record.name == name)

    def _list(self) -> Sequence[TopologySummary]:
        """Return the topologies; none while no leader answers."""
        try:
            return self._cluster.client.list()
        except UnavailableError:
            return ()

    def _of_role(self, role: str) -> ProcessInfo:
        return next(one for one in self._cluster.processes if one.role == role)

    def _leader(self) -> ProcessInfo:
        port = int(self._cluster.client.leader().rpartition(":")[2])
        return next(one for one in self._cluster.processes if one.grpc_port == port)

    def _counted(self, nimbus: ProcessInfo) -> tuple[float, float, float]:
        """Return nimbus's reports, the seconds of its cycles, and its cycles, so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{nimbus.http_port}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        found = {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
        names = ("worker_reports_total", "cycle_seconds_sum", "cycle_seconds_count")
        reports, cycle_s, cycles = (found.get(f"tupletree_nimbus_{name}", 0.0) for name in names)
        return reports, cycle_s, cycles


def _unix_s(moment: str) -> float:
    return datetime.datetime.fromisoformat(moment).timestamp()


def processor_ms(work: Callable[[], object], times: int = 5) -> float:
    """Return the processor milliseconds of this process for ``work``, the median of some repetitions."""
    took = []
    for _ in range(times):
        before_s = time.process_time()
        work()
        took.append(1000 * (time.process_time() - before_s))
    return round(statistics.median(took), 2)


@contextlib.contextmanager
def session(cluster: DevCluster) -> Iterator[Store]:
    """A store of the cluster, in a session of its own."""
    client = connect(cluster.conf)
    try:
        yield CachingStore(client, str(cluster.conf["zookeeper.root"]))
    finally:
        disconnect(client)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    conf = {"nimbus.task.timeout.secs": arguments.task_timeout, "zookeeper.session.timeout": 30_000}
    with DevCluster(supervisors=0, slots=1, ackers=1, nimbuses=2, conf=conf) as cluster, session(cluster) as store:
        machines = Machines(cluster, arguments)
        try:
            run = Measured(cluster, store, machines, arguments)
            steps: Sequence[Callable[[], dict[str, Any]]] = (
                run.start,
                run.steady,
                lambda: _control.costs(store, processor_ms),
                run.large,
                lambda: _control.view_cost(store, LARGE, processor_ms),
                run.lost_machine,
                run.next_leader,
                _control.assignment_bytes,
            )
            result: dict[str, Any] = {}
            for step in steps:
                result |= step()
                print(json.dumps(result), file=sys.stderr, flush=True)
            return result
        finally:
            machines.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--supervisors", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=5, help="of each supervisor (%(default)s)")
    parser.add_argument("--topologies", type=int, default=500)
    parser.add_argument("--workers", type=int, default=8, help="of each topology (%(default)s)")
    parser.add_argument("--executors", type=int, default=2, help="of each worker (%(default)s)")
    parser.add_argument("--busy", type=float, default=1.0, help="share of the tasks that process tuples (%(default)s)")
    parser.add_argument("--large", type=int, default=2000, help="executors of the large topology (%(default)s)")
    parser.add_argument("--large-workers", type=int, default=40, help="workers of the large topology (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of measuring while everything reports")
    parser.add_argument("--task-timeout", type=int, default=30, help="nimbus.task.timeout.secs (%(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="that play the machines (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("cluster_size", __doc__, add_arguments, measure))
