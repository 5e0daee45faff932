"""Latency of DRPC calls at fixed rates, from the time when a call is due to its answer; and the highest rate kept.

    python -m bench.drpc --rates 100 300 1000 --seconds 15 --json
    python -m bench.drpc --rates 100 --highest --seconds 10

A client in a process of its own calls a function of a topology of spout, bolt and ReturnResults, --workers workers,
one acker and one DRPC server. Call n is due n / rate seconds after the start, whether or not earlier calls are answered
(no coordinated omission). The first --warm seconds are left out. --way: ``execute_async`` (stream), ``execute`` by 100
threads, or a gRPC call for each DRPC call (unary), as programs in other languages make them.

Metrics end in the rate: ``p99_ms_at_1000``. ``unanswered`` are calls that were refused or failed; a wrong answer makes
the exit status 1. ``cpu_us`` is the processor time of a call in client, server, workers and acker together, which an
otherwise busy machine changes less than latencies; ``others_cores`` are the processors that were busy with other work.

``highest`` is the highest rate kept: all calls answered, 99 of 100 within --limit-ms. The search begins at --start
and has steps of a quarter, each tried twice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._drpc_calls import FUNCTION, WAYS
from bench._flow import Use
from bench.latency import percentiles
from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.component import BasicCollector
from tupletree.drpc import DRPCClient, DRPCSpout, ReturnResults
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME: Final = "drpc"
STEP: Final = 1.25
ROLES: Final = ("worker", "acker", "drpc")
CLIENT_TIMEOUT_S: Final = 120.0


class Score(BasicBolt):
    """Adds up the features of a request."""

    outputs = ["score", "return_info"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit([sum(tup["args"].values()), tup["return_info"]])


def topology(workers: int) -> Topology:
    """Return spout → bolt → results."""
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout(FUNCTION))
    builder.set_bolt("score", Score(), workers).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults(), workers).local_or_shuffle_grouping("score")
    return builder.create_topology()


class Measured:
    """A cluster with a DRPC server, at which clients call."""

    def __init__(self, cluster: DevCluster, arguments: argparse.Namespace) -> None:
        [self._address] = cluster.conf["drpc.servers"]
        self._arguments = arguments
        self._pids = {role: [one.pid for one in cluster.processes if one.role == role] for role in ROLES}

    def at(self, rate: float) -> dict[str, Any]:
        """Return the metrics of a rate. Raises WrongResultError for a wrong answer, or if no call was answered."""
        given = self._arguments
        options = {"server": self._address, "rate": rate, "warm": given.warm, "seconds": given.seconds}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "bench._drpc_calls", *words, "--way", given.way]
        use = Use(self._pids)
        timeout_s = given.warm + given.seconds + CLIENT_TIMEOUT_S
        told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=timeout_s).stdout)
        use.stop()
        if told["wrong"] or not told["latencies_s"]:
            raise WrongResultError(f"{rate:g} calls/s: {told['wrong'] or told['errors']}")
        used_s = {**use.cpu_s, "client": told["cpu_s"]}
        return {
            "calls_per_s": round(told["calls"] / told["took_s"]),
            "answered": len(told["latencies_s"]),
            "unanswered": sum(told["errors"].values()),
            **percentiles(told["latencies_s"]),
            "cpu_us": round(1e6 * sum(used_s.values()) / told["calls"]),
            **{f"{role}_cpu_us": round(1e6 * one_s / told["calls"]) for role, one_s in used_s.items()},
            "others_cores": round(max(0.0, use.others_cores - told["cpu_s"] / told["took_s"]), 2),
        }

    def highest(self) -> dict[str, Any]:
        """Search the highest rate kept."""
        rate, kept = self._arguments.start, 0.0
        facts: dict[str, Any] = {}
        while any(self._is_kept(found := self.at(rate)) for _ in range(2)):
            kept, facts = rate, found
            rate = round(rate * STEP)
        return {"highest": round(kept), **{f"{name}_at_highest": value for name, value in facts.items()}}

    def _is_kept(self, found: dict[str, Any]) -> bool:
        print(f"{found['calls_per_s']} calls/s: p99 {found['p99_ms']} ms", file=sys.stderr, flush=True)
        return found["unanswered"] == 0 and bool(found["p99_ms"] <= self._arguments.limit_ms)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, drpc_servers=1) as cluster:
        cluster.client.submit(NAME, topology(arguments.workers), {"topology.workers": arguments.workers})
        with DRPCClient(conf=cluster.conf) as client:
            wait_until(lambda: _is_answered(client), 60, what="the topology answers")
        measured = Measured(cluster, arguments)
        result: dict[str, Any] = {}
        for rate in arguments.rates:
            result.update({f"{name}_at_{rate:g}": value for name, value in measured.at(rate).items()})
        if arguments.highest:
            result.update(measured.highest())
        return result


def _is_answered(client: DRPCClient) -> bool:
    try:
        return bool(client.execute(FUNCTION, {"age": 1}, timeout_s=2) == 1)
    except TupletreeError:
        return False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    rates = [100.0, 300.0, 1_000.0]
    parser.add_argument("--rates", type=float, nargs="*", default=rates, help="calls begun per second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement (%(default)s)")
    parser.add_argument("--warm", type=float, default=3.0, help="seconds before each (%(default)s)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--way", choices=WAYS, default="stream", help="of the client (%(default)s)")
    parser.add_argument("--highest", action="store_true", help="search the highest rate kept, too")
    parser.add_argument("--start", type=float, default=500.0, help="of the search (%(default)s)")
    parser.add_argument("--limit-ms", type=float, default=100.0, help="of p99, for a rate to be kept (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
