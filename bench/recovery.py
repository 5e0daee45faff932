"""Time from kill -9 of each kind of process until all tuples pending at that moment are acked or replayed.

    python -m bench.recovery --json

A spout keeps a few hundred numbers pending before a bolt that takes a millisecond per number, on two workers and two
shards, each at its own acker. The spout records every emit and ack. One process after the other is killed. The numbers
pending at that moment are followed until each is acked, or emitted again: because it failed or, if the spout's worker
was killed, because the new spout emits all unacked numbers again, like the reader of a durable queue.

The message timeout is 30 seconds: a time near 30 s means that only the timeout detected the crash. The next crash comes
when the cluster has recovered. ``*_replayed`` counts the pending numbers that were emitted again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import _cli
from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree.component import BasicCollector, SpoutCollector, TopologyContext
from tupletree.errors import UnavailableError
from tupletree.testing import DevCluster, ProcessInfo, wait_until
from tupletree.tuples import Tuple

NAME: Final = "recovery"
WORKERS: Final = 2
ACKERS: Final = 2
TIMEOUT_S: Final = 30
MAX_S: Final = 3 * TIMEOUT_S
STEADY_ACKS: Final = 400


class Numbers(Spout):
    """Emits 0, 1, 2, … and failed numbers again. Records each emit and ack, and resumes unacked numbers."""

    outputs = ("number",)

    def __init__(self, journal: str) -> None:
        self.journal = journal

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        journal = Journal(self.journal)
        self.again = deque(sorted(journal.pending(time.time())))
        self.next = 1 + max((event.number for event in journal.events()), default=-1)
        self.out = os.open(self.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def next_tuple(self) -> None:
        number = self.again.popleft() if self.again else self.next
        self.next = max(self.next, number + 1)
        self.write("emit", number)
        self.collector.emit([number], number)

    def ack(self, msg_id: Any) -> None:
        self.write("ack", msg_id)

    def fail(self, msg_id: Any) -> None:
        self.again.append(msg_id)

    def write(self, kind: str, number: int) -> None:
        """Write one line in one write, which a kill cannot cut."""
        os.write(self.out, f"{kind} {number} {time.time()}\n".encode())


class Slow(BasicBolt):
    """Takes a millisecond for each number, so that many are pending at any time."""

    outputs = ("number",)
    blocking = True

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        time.sleep(0.001)
        collector.emit([tup["number"]])


class Sink(BasicBolt):
    """The end of each tree."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def topology(journal: str) -> Topology:
    """numbers → slow → sink, with each bolt once per worker."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(journal))
    builder.set_bolt("slow", Slow(), WORKERS).shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink(), WORKERS).fields_grouping("slow", ["number"])
    return builder.create_topology()


class Event(NamedTuple):
    """One line of the journal."""

    kind: str
    number: int
    at_unix_s: float


class Journal:
    """The journal of the spout, read while it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: list[Event] = []
        self._offset = 0

    def events(self) -> list[Event]:
        """Return all events so far, in order."""
        if os.path.exists(self._path):
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._offset += len(whole + newline)
            for line in whole.decode().splitlines():
                kind, number, at = line.split()
                self._events.append(Event(kind, int(number), float(at)))
        return self._events

    def acks(self) -> int:
        """Return the number of acks."""
        return sum(event.kind == "ack" for event in self.events())

    def pending(self, at_unix_s: float) -> set[int]:
        """Return the numbers emitted but not acked at a moment."""
        before = [event for event in self.events() if event.at_unix_s <= at_unix_s]
        return {event.number for event in before} - {event.number for event in before if event.kind == "ack"}

    def settled(self, pending: set[int], since_unix_s: float) -> dict[int, Event]:
        """Return the first event of each pending number after a moment, for numbers that have one."""
        first: dict[int, Event] = {}
        for event in self.events():
            if event.at_unix_s > since_unix_s and event.number in pending:
                first.setdefault(event.number, event)
        return first


def workers_of(cluster: DevCluster) -> list[ProcessInfo]:
    """Return the workers, in the order in which ``DevCluster.kill`` counts them."""
    return [process for process in cluster.processes if process.role == "worker"]


def kill_worker(cluster: DevCluster, with_spout: bool) -> None:
    """Kill the worker that runs the spout, or the other worker."""
    described = cluster.client.describe(NAME)
    [spout] = [
        worker.port
        for worker in described.assignment.workers
        if any(executor.first_task == 1 for executor in worker.executors)  # "numbers" comes first of all ids
    ]
    ports = [process.grpc_port for process in workers_of(cluster)]
    cluster.kill("worker", next(i for i, port in enumerate(ports) if (port == spout) is with_spout))


def kill_leader(cluster: DevCluster) -> Callable[[], None]:
    """Kill the leading nimbus. The returned function restarts it as a standby of the other."""
    leader = cluster.client.leader()
    nimbuses = [process for process in cluster.processes if process.role == "nimbus"]
    index = next(i for i, nimbus in enumerate(nimbuses) if leader.endswith(f":{nimbus.grpc_port}"))
    cluster.kill("nimbus", index)

    def mend() -> None:
        wait_until(lambda: cluster.client.leader() != leader, 60, what="the standby leads")
        cluster.restart("nimbus", index)

    return mend


def crashes(cluster: DevCluster) -> Iterator[tuple[str, Callable[[], Callable[[], object] | None]]]:
    """Yield the name and the trigger of each crash. The trigger may return a function that repairs the crash."""

    def kill(role: str) -> Callable[[], object]:
        cluster.kill(role)
        return lambda: cluster.restart(role)

    def restart_zookeeper() -> None:
        cluster.kill("zookeeper")
        cluster.restart("zookeeper")

    yield "worker", lambda: kill_worker(cluster, with_spout=False)
    yield "spout_worker", lambda: kill_worker(cluster, with_spout=True)
    yield "acker", lambda: kill("acker")
    yield "nimbus", lambda: kill_leader(cluster)
    yield "supervisor", lambda: kill("supervisor")
    yield "zookeeper", restart_zookeeper


def wait_steady(cluster: DevCluster, journal: Journal) -> None:
    """Wait until every process is running again and tuples flow."""

    def is_whole() -> bool:
        try:
            [summary] = cluster.client.list()
            ackers = cluster.client.cluster().ackers
        except UnavailableError:
            return False
        return summary.workers_ready == WORKERS and len(ackers) == ACKERS

    wait_until(is_whole, 60, what="every process is there")
    wanted = journal.acks() + STEADY_ACKS
    wait_until(lambda: journal.acks() >= wanted, 60, what="tuples flow")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one crash of each kind on a fresh cluster."""
    conf = {
        "topology.workers": WORKERS,
        "topology.acker.executors": ACKERS,
        "topology.message.timeout.secs": TIMEOUT_S,
        "topology.max.spout.pending": arguments.pending,
    }
    result: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        DevCluster(supervisors=2, slots=1, ackers=ACKERS, nimbuses=2) as cluster,
    ):
        path = str(Path(directory, "journal"))
        journal = Journal(path)
        cluster.client.submit(NAME, topology(path), conf)
        for name, crash in crashes(cluster):
            wait_steady(cluster, journal)
            crash_unix_s = time.time()
            mend = crash()
            pending = journal.pending(crash_unix_s)
            wait_until(
                lambda p=pending, s=crash_unix_s: len(journal.settled(p, s)) == len(p),  # type: ignore[misc]
                MAX_S,
                what=f"every number pending at the crash ({name}) is acked or replayed",
            )
            first = journal.settled(pending, crash_unix_s).values()
            result[f"{name}_s"] = round(
                max((event.at_unix_s for event in first), default=crash_unix_s) - crash_unix_s, 3
            )
            result[f"{name}_replayed"] = sum(event.kind == "emit" for event in first)
            if mend is not None:
                mend()
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--pending", type=int, default=200, help="topology.max.spout.pending")


if __name__ == "__main__":
    sys.exit(_cli.run("recovery", __doc__, add_arguments, measure, {"message_timeout_s": TIMEOUT_S}))
