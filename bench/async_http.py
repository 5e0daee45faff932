"""Calls of a slow HTTP service by an AsyncBolt, and by the same client without a topology.

    python -m bench.async_http --calls 200000 --in-flight 1000 --delay-ms 50 --json

A server of its own process answers each call after --delay-ms. First the bare client makes the calls, --in-flight at a
time, in one process; then a topology of one worker and one acker makes them, every call a tracked tuple: spout →
AsyncBolt. ``bare_calls_per_s`` and ``calls_per_s`` are over all calls.

With --rate both begin a call every 1 / rate seconds instead. ``bare_p50_ms`` and ``bare_p99_ms`` are from the time when
a call is due to its answer, ``p50_ms`` and ``p99_ms`` to the ack of its tuple. The server, the client and the daemons
share this machine's cores. Each call must be answered once, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from bench import _cli
from bench._flow import Run, Witness, drive
from bench._http_calls import Client, serving
from bench.latency import Scheduled, load, percentiles
from tupletree import AsyncBolt, Topology, TopologyBuilder
from tupletree._event_loop import EventLoop
from tupletree.testing import DevCluster
from tupletree.tuples import Tuple

NAME = "async_http"
PENDING_EACH = 2
"""Pending tuples per call in flight, so that a tuple always waits for the next free place."""


class Numbers(Scheduled):
    """Emits numbers as fast as the topology takes them, or ``rate`` per second. A message id has the due time."""

    outputs = ("number",)

    def make_rows(self) -> list[list[Any]]:
        return [[0]]

    def next_tuple(self) -> None:
        if self.rate:
            super().next_tuple()
        elif self.next < self.count and (self.next > 0 or self.may_start()):
            self.next += 1
            self.emit(self.next - 1)

    def emit(self, number: int) -> None:
        due_s = self.started_s + number / self.rate if self.rate else time.perf_counter()
        self.collector.emit([number], (number, due_s))

    def fail(self, msg_id: Any) -> None:
        super().fail(msg_id[0])


class Call(AsyncBolt):
    """Calls the server for each number."""

    def __init__(self, directory: str, port: int, in_flight: int) -> None:
        self.directory = directory
        self.port = port
        self.in_flight = in_flight
        self.answered = 0

    async def open_async(self) -> None:
        self.client = Client(self.port)
        Witness(self.directory, "calls", lambda: self.answered, lambda: None).start()

    async def execute(self, tup: Tuple) -> None:
        await self.client.get(tup["number"])
        self.answered += 1

    async def close_async(self) -> None:
        self.client.close()


async def _call_bare(port: int, calls: int, in_flight: int, rate: float) -> tuple[float, Sequence[float]]:
    """Make the calls with the client alone; return the seconds, and the latency of each call."""
    client = Client(port)
    latencies_s = array("d")
    began_s = time.perf_counter()

    async def call(number: int, due_s: float) -> None:
        await client.get(number)
        latencies_s.append(time.perf_counter() - due_s)

    async def call_in_turn(numbers: Iterator[int]) -> None:
        for number in numbers:
            await call(number, time.perf_counter())

    if rate:
        async with asyncio.TaskGroup() as group:
            begun = 0
            while begun < calls:
                due = min(calls, math.ceil((time.perf_counter() - began_s) * rate))
                for number in range(begun, due):
                    group.create_task(call(number, began_s + number / rate))
                begun = due
                await asyncio.sleep(0.001)
    else:
        numbers = iter(range(calls))
        await asyncio.gather(*(call_in_turn(numbers) for _ in range(in_flight)))
    seconds = time.perf_counter() - began_s
    client.close()
    return seconds, latencies_s


def topology(arguments: argparse.Namespace, directory: str, port: int) -> Topology:
    """Return spout → AsyncBolt."""
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers(directory, arguments.calls, arguments.rate))
    builder.set_bolt("call", Call(directory, port, arguments.in_flight)).shuffle_grouping(numbers)
    return builder.create_topology()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=1, ackers=1) as cluster:
        return measure_on(cluster, arguments)


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with a free slot and an acker, and return the metrics."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, serving(arguments.delay_ms / 1000) as (port, pid):
        calls, in_flight = arguments.calls, arguments.in_flight
        bare_loop = EventLoop.acquire()  # of the same library as that of the bolt
        bare_s, bare_latencies_s = bare_loop.run(_call_bare(port, calls, in_flight, arguments.rate))
        bare_loop.release()
        conf = {"topology.max.spout.pending": PENDING_EACH * in_flight, "topology.acker.executors": 1}
        run = Run(NAME, topology(arguments, directory, port), conf, directory, 1, ["calls"], calls)
        flow = drive(cluster, run, {"server": [pid]})
        latencies_s = load(directory, "acks")
    return {
        "bare_calls_per_s": round(calls / bare_s),
        **flow.figures(calls, "call"),
        "ratio": round(bare_s / flow.wall_s, 3),
        **percentiles(bare_latencies_s, "bare_"),
        **percentiles(latencies_s),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    parser.add_argument("--rate", type=float, default=0.0, help="calls begun per second; 0: as many as possible")


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
