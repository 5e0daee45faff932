"""Messages from one topic or queue to another by a tracked topology, and by a bare client at the same broker.

    python -m bench.connectors --system kafka --messages 300000 --turns 3 --json
    python -m bench.connectors --system rabbitmq --messages 60000 --turns 3 --json

A broker of its own holds messages of 100 bytes. In turns, these move all of them, one at a time:

* a topology of one worker (or --workers, each with a spout and a bolt) and one acker, spout → bolt, every message a
  tracked tuple, acknowledged or committed when its tree is complete;
* ``bare``: a process with the client library alone, with the same settings. For Kafka, a loop of confluent-kafka that
  polls and produces, and commits nothing; ``bare_defaults`` is this loop with the defaults of the client, which commits
  by itself, and whose full queue waits for up to a second. For RabbitMQ, callbacks of pika that consume, publish
  persistently with confirms, and acknowledge what is confirmed; both sides have a prefetch of --prefetch;
* ``bytewax``, for Kafka: its own source and sink in one process, or --workers of them, the producer with the same
  settings. It is left out, with the reason, unless ``python -m bench.peers setup --only bytewax`` has set it up.

The clock runs from the last look at an empty target to the first at a full one; looks are 20 ms apart. ``ratio`` is the
speed-up of the topology over the bare loop, ``ratio_defaults`` that over the loop with defaults, ``speed_up_bytewax``
that over bytewax: medians of ``ratios``, ``ratios_defaults`` and ``speed_ups_bytewax`` of the single turns.
``cpu_us_per_message`` is the processor time of the worker and the acker, or of the process, and ``others_cores`` the
number of processors that other programs than these and the broker kept busy.
Each message must be in the target once, else the exit status is 1.

Kafka needs Java, and Maven with Apache Kafka; RabbitMQ Debian's rabbitmq-server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from bench import _cli
from bench._flow import Use, end
from bench._kafka_topics import topics
from bench._rabbit_queues import queues
from bench.peers import environments, session
from tupletree import Topology
from tupletree.testing import DevCluster

NAME = "connectors"
OURS: Final = "topology"
LOOK_EVERY_S: Final = 0.02
PATIENCE_S: Final = 300.0
ROOT: Final = Path(__file__).resolve().parents[1]

Figures = dict[str, float]


class Broker(Protocol):
    """A broker with sources and targets. ``pids``: its processes."""

    pids: Sequence[int]

    def fill(self) -> str: ...
    def create(self) -> str: ...
    def written(self, target: str) -> int: ...
    def numbers(self, target: str) -> list[int]: ...
    def topology(self, source: str, target: str) -> Topology: ...
    def loops(self, source: str, target: str) -> Mapping[str, Sequence[str]]: ...


class Turns:
    """Runs of the topology and of the loops at one broker."""

    def __init__(self, cluster: DevCluster, broker: Broker, arguments: argparse.Namespace) -> None:
        self.cluster = cluster
        self.broker = broker
        self.count: int = arguments.messages
        self.pending: int = arguments.pending
        self.workers: int = arguments.workers

    def run(self, name: str) -> Figures:
        """Move all messages once."""
        source, target = self.broker.fill(), self.broker.create()
        figures = self.run_topology(source, target) if name == OURS else self.run_loop(name, source, target)
        found = self.broker.numbers(target)
        if sorted(found) != list(range(self.count)):
            text = f"{name}: {len(found):,} messages, {len(set(found)):,} different, of {self.count:,}"
            raise _cli.WrongResultError(text)
        return figures

    def run_topology(self, source: str, target: str) -> Figures:
        name = f"{NAME}-{uuid.uuid4().hex[:8]}"
        conf = {
            "topology.max.spout.pending": self.pending,
            "topology.acker.executors": 1,
            "topology.workers": self.workers,
        }
        self.cluster.client.submit(name, self.broker.topology(source, target), conf)
        figures = self.watch(target, self.pids)
        end(self.cluster, name)
        return figures

    def run_loop(self, name: str, source: str, target: str) -> Figures:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = ["setpriv", "--pdeathsig", "KILL", *self.broker.loops(source, target)[name]]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)

        def pids() -> list[int]:
            if process.poll() is not None:
                raise _cli.WrongResultError(f"{name} ended with status {process.returncode}")
            return session.members(process.pid)

        try:
            return self.watch(target, pids)
        finally:
            session.end(process)

    def pids(self) -> list[int]:
        return [process.pid for process in self.cluster.processes if process.role in ("worker", "acker")]

    def watch(self, target: str, pids: Callable[[], Sequence[int]]) -> Figures:
        """Return the figures between the last look at an empty target and the first at a full one."""
        given_up_s = time.perf_counter() + PATIENCE_S
        began_s, use, written = 0.0, None, 0
        while written < self.count:
            running = pids()
            if not written:
                began_s, use = time.perf_counter(), Use({"movers": running, "broker": self.broker.pids})
            if time.perf_counter() > given_up_s:
                raise TimeoutError(f"{written:,} of {self.count:,} messages were written in {PATIENCE_S:g} s")
            time.sleep(LOOK_EVERY_S)
            written = max(written, self.broker.written(target))
        assert use is not None
        seconds = time.perf_counter() - began_s
        use.stop()
        return {
            "messages_per_s": self.count / seconds,
            "cpu_us_per_message": 1e6 * use.cpu_s["movers"] / self.count,
            "broker_cpu_us_per_message": 1e6 * use.cpu_s["broker"] / self.count,
            "others_cores": use.others_cores,
        }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all turns on a fresh broker and cluster, and return the metrics."""
    peer, reason = None, ""
    with contextlib.ExitStack() as stack:
        if arguments.system == "kafka":
            try:
                peer = environments.find(Path(arguments.venvs).expanduser(), "bytewax") / "bin" / "python"
            except environments.UnavailableError as error:
                reason = str(error)
            broker: Broker = stack.enter_context(topics(arguments.messages, peer, arguments.workers))
        else:
            broker = stack.enter_context(queues(arguments.messages, arguments.prefetch))
        turns = Turns(stack.enter_context(DevCluster(slots=arguments.workers, ackers=1)), broker, arguments)
        names = [OURS, *broker.loops("", "")]
        runs: dict[str, list[Figures]] = {name: [] for name in names}
        for number in range(arguments.turns):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                runs[name].append(turns.run(name))
    result = summary(runs)
    return {**result, "bytewax_unavailable": reason} if reason else result


def summary(runs: Mapping[str, Sequence[Figures]]) -> dict[str, Any]:
    """Return medians over the turns, and the speed-ups of the topology."""
    result: dict[str, Any] = {}
    for name, turns in runs.items():
        prefix = "" if name == OURS else f"{name}_"
        medians = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
        result[f"{prefix}messages_per_s"] = round(medians["messages_per_s"])
        result |= {f"{prefix}{key}": round(value, 1) for key, value in medians.items() if "cpu" in key}
        result[f"{prefix}others_cores"] = round(medians["others_cores"], 2)
    rows = [("bare", "ratio", "ratios"), ("bare_defaults", "ratio_defaults", "ratios_defaults")]
    for name, one, many in (*rows, ("bytewax", "speed_up_bytewax", "speed_ups_bytewax")):
        if name in runs:
            pairs = zip(runs[OURS], runs[name], strict=True)
            ratios = [round(ours["messages_per_s"] / other["messages_per_s"], 3) for ours, other in pairs]
            result |= {one: statistics.median(ratios), many: ratios}
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", choices=("kafka", "rabbitmq"), required=True)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--pending", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1, help="of the topology, and processes of bytewax; for Kafka")
    parser.add_argument("--prefetch", type=int, default=1_000, help="of RabbitMQ's consumers")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--venvs", default=str(environments.DEFAULT), help="the folder of bench.peers setup")


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
