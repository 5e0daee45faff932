"""Requests of concurrent clients that a WebhookSpout answers when their tuple trees are complete.

    python -m bench.webhooks --requests 40000 --clients 64 --rate 2000 --json

Clients with keep-alive connections post small JSON bodies to a topology of one worker and one acker: spout → bolt.
``requests_per_s`` is over all requests. ``p50_ms`` to ``max_ms`` are from the time when a request is due to its answer:
the clients begin a request every 1 / rate seconds, over as many connections as that takes, at most --clients. With
--rate 0 each of the --clients connections posts its next request at once. The first --warm requests are left out.

The clients run in this process and share this machine's cores with the daemons; ``cpu_us_per_request`` is that of the
worker and the acker. Each request must be answered with 200
and be processed once, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Use, Witness, end, told
from bench._http_calls import Poster
from bench._processes import peak_rss_mb
from bench.latency import percentiles
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree._net import ReservedPorts
from tupletree.component import BasicCollector, TopologyContext
from tupletree.connectors.formats import Json
from tupletree.connectors.http import WebhookSpout
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME: Final = "webhooks"
BODY: Final = b'{"number": %d, "user": "user-%d", "event": "order.created", "amount": 1999, "currency": "EUR"}'
TIMEOUT_S: Final = 240.0


class Record(BasicBolt):
    """Records the numbers of the requests."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self, conf: Any, context: TopologyContext) -> None:
        self.numbers: set[int] = set()
        self.executed = 0
        Witness(self.directory, "record", lambda: len(self.numbers), lambda: self.executed).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.numbers.add(tup["number"])
        self.executed += 1


def topology(directory: str, port: int, clients: int) -> Topology:
    """Return spout → bolt."""
    builder = TopologyBuilder()
    spout = WebhookSpout(port, Json(["number", "user", "amount"]), max_in_flight=max(1000, clients))
    builder.set_bolt("record", Record(directory)).shuffle_grouping(builder.set_spout("requests", spout))
    return builder.create_topology()


async def post_all(port: int, numbers: range, clients: int, rate: float) -> tuple[float, Sequence[float]]:
    """Post a request for each number; return the seconds, and the latency of each.

    Raises WrongResultError for a status other than 200.
    """
    posters = [await Poster.connect(port) for _ in range(clients)]
    latencies_s = array("d")
    turns = iter(enumerate(numbers))
    began_s = time.perf_counter()

    async def post_in_turn(poster: Poster) -> None:
        for turn, number in turns:
            due_s = began_s + turn / rate if rate else time.perf_counter()
            if (early_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(early_s)
            answer = await poster.post(BODY % (number, number % 1000))
            latencies_s.append(time.perf_counter() - due_s)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise WrongResultError(f"request {number} was answered {answer[:60]!r}")

    async with asyncio.TaskGroup() as group:
        for poster in posters:
            group.create_task(post_in_turn(poster))
    seconds = time.perf_counter() - began_s
    for poster in posters:
        poster.close()
    return seconds, latencies_s


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with a free slot and an acker, and return the metrics."""
    requests, ports = arguments.warm + arguments.requests, ReservedPorts()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        [port] = ports.reserve(1)
        conf = {"topology.acker.executors": 1}
        cluster.client.submit(NAME, topology(directory, port, arguments.clients), conf)
        wait_until(lambda: _is_open(port), 60, what="the spout listens")
        asyncio.run(post_all(port, range(arguments.warm), arguments.clients, 0))
        pids = {
            role: [process.pid for process in cluster.processes if process.role == role] for role in ("worker", "acker")
        }
        use = Use({**pids, "client": [os.getpid()]})
        seconds, latencies_s = asyncio.run(
            post_all(port, range(arguments.warm, requests), arguments.clients, arguments.rate)
        )
        use.stop()
        sizes = peak_rss_mb([*pids["worker"], *pids["acker"]])
        wait_until(lambda: _recorded(directory) == requests, TIMEOUT_S, what="each request is recorded once")
        end(cluster, NAME)
        ports.release()
    used_s = sum(use.cpu_s[role] for role in pids)
    return {
        "requests_per_s": round(arguments.requests / seconds),
        **percentiles(latencies_s),
        "cpu_us_per_request": round(1e6 * used_s / arguments.requests, 1),
        **{f"cpu_{role}_s": round(spent_s, 2) for role, spent_s in use.cpu_s.items()},
        "peak_rss_mb": round(sizes),
        "others_cores": use.others_cores,
    }


def _recorded(directory: str) -> int | None:
    """Return the number of requests that the bolt has recorded, if it recorded each once."""
    seen = told(directory, "record")
    return seen["total"] if seen is not None and seen["facts"] == seen["total"] else None


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=1, ackers=1) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--clients", type=int, default=64, help="keep-alive connections (%(default)s)")
    parser.add_argument("--rate", type=float, default=2_000.0, help="requests begun per second; 0: as many as possible")
    parser.add_argument("--warm", type=int, default=2_000, help="requests before the measurement (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
