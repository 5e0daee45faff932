"""Latency of DRPC calls at a fixed rate: from the time when a call is due to its answer.

    python -m bench.drpc --rate 1000 --seconds 15 --json

A client in this process calls a function of a topology of spout, bolt and ReturnResults, with --workers workers, one
acker and one DRPC server, over one connection. Call n is due n / rate seconds after the start, whether or not earlier
calls are answered (no coordinated omission). The first --warm seconds are left out.

``answered`` are the calls in the measurement, each of which must be answered rightly, else the exit status is 1.
``calls_per_s`` is the actual rate, until the last answer; ``client_cpu_s`` the processor time of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench.latency import percentiles
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.drpc import DRPCClient, DRPCSpout, ReturnResults
from tupletree.errors import DRPCError
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME: Final = "drpc"


class Score(BasicBolt):
    """Adds up the features of a request."""

    outputs = ["score", "return_info"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit([sum(tup["args"].values()), tup["return_info"]])


def topology(workers: int) -> Topology:
    """Return spout → bolt → results."""
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout("score"))
    builder.set_bolt("score", Score(), workers).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults(), workers).local_or_shuffle_grouping("score")
    return builder.create_topology()


@contextmanager
def server() -> Iterator[str]:
    """Run a DRPC server; yield its address."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        told = Path(directory, "announce.json")
        settings = [f"local.dir={directory}", "drpc.port=0", "drpc.http.port=0"]
        arguments = [argument for setting in settings for argument in ("-c", setting)]
        command = [sys.executable, "-m", "tupletree.drpc_server", *arguments, "--announce", str(told)]
        with subprocess.Popen(command, cwd=directory) as process:
            try:
                wait_until(told.exists, 20, what="the DRPC server serves")
                yield f"127.0.0.1:{json.loads(told.read_text())['grpc_port']}"
            finally:
                process.terminate()


async def call_all(address: str, rate: float, warm_s: float, seconds: float) -> dict[str, Any]:
    """Make the calls and return the metrics. Raises WrongResultError for a wrong answer, or none."""
    latencies_s = array("d")
    async with DRPCClient(address) as client:
        began_s = time.perf_counter()

        async def call(number: int, due_s: float) -> None:
            answer = await client.execute_async("score", {"age": number, "visits": 1})
            if answer != number + 1:
                raise WrongResultError(f"call {number} was answered {answer!r}")
            if due_s >= began_s + warm_s:
                latencies_s.append(time.perf_counter() - due_s)

        used_s = time.process_time()
        async with asyncio.TaskGroup() as group:
            for number in range(round(rate * (warm_s + seconds))):
                due_s = began_s + number / rate
                if (early_s := due_s - time.perf_counter()) > 0:
                    await asyncio.sleep(early_s)
                group.create_task(call(number, due_s))
        took_s = time.perf_counter() - began_s
    return {
        "calls_per_s": round(rate * (warm_s + seconds) / took_s),
        "answered": len(latencies_s),
        **percentiles(latencies_s),
        "client_cpu_s": round(time.process_time() - used_s, 2),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with server() as address, DevCluster(slots=arguments.workers, conf={"drpc.servers": [address]}) as cluster:
        cluster.client.submit(NAME, topology(arguments.workers), {"topology.workers": arguments.workers})
        with DRPCClient(address) as client:
            wait_until(lambda: _is_answered(client), 60, what="the topology answers")
        return asyncio.run(call_all(address, arguments.rate, arguments.warm, arguments.seconds))


def _is_answered(client: DRPCClient) -> bool:
    try:
        return bool(client.execute("score", {"age": 1}, timeout_s=2) == 1)
    except DRPCError:
        return False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, default=1_000.0, help="calls begun per second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of the measurement (%(default)s)")
    parser.add_argument("--warm", type=float, default=3.0, help="seconds before it (%(default)s)")
    parser.add_argument("--workers", type=int, default=1)


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
