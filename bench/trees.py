"""Trees of programs outside topologies: fan-outs of client processes over each other, through one real acker.

    python -m bench.trees --trees 100000 --children 10 --clients 3 [--kill] [--json] [--record]

Each client begins its share of the trees, hands their children to all clients in turn, and acks those that it gets.
--kill: the last client is killed (SIGKILL) when it has begun half of its trees. Every tree of the clients that live
must have one outcome, and without --kill each must be done; and every tree that the acker began, those of the killed
client too, must end there, as done, failed or timed out. ``trees_per_s``: trees of the living clients, from the
start until the slowest has its last outcome; with --kill the timeout of the trees with lost children is in it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Any, Final, TextIO

from bench import _cli
from bench._cli import WrongResultError
from bench._processes import cpu_s, peak_rss_mb
from tupletree.client import NamespaceSummary, NimbusClient
from tupletree.testing import DevCluster, wait_until

NAMESPACE: Final = "fan"
Clients = list[subprocess.Popen[str]]


def fan_out(
    acker: str, namespace: str, trees: int, children: int, clients: int, most_open: int, timeout_s: float, *, kill: bool
) -> list[dict[str, Any]]:
    """Run the clients, kill the last if asked, and return what the living have told."""
    with tempfile.TemporaryDirectory(prefix="trees-") as directory, contextlib.ExitStack() as ends:
        options = {"acker": acker, "namespace": namespace, "peers": clients, "directory": directory, "trees": trees}
        options |= {"children": children, "open": most_open, "timeout": timeout_s}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        running: Clients = []
        for me in range(clients):
            command = [sys.executable, "-m", "bench._tree_client", "--me", str(me), *words]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ends.enter_context(process)
            ends.callback(process.kill)
            running.append(process)
        for process in running:
            _expect(process, "ready")
        for process in running:
            _pipe(process.stdin).write("go\n")
            _pipe(process.stdin).flush()
        if kill:
            last = running.pop()
            _expect(last, "half")
            last.kill()
        for process in running:
            _expect(process, "half")
        return [json.loads(_pipe(process.stdout).readline() or "null") for process in running]


def _expect(process: subprocess.Popen[str], line: str) -> None:
    told = _pipe(process.stdout).readline().strip()
    if told != line:
        raise WrongResultError(f"a client printed {told!r}, expected {line!r}")


def _pipe(pipe: Any) -> TextIO:
    assert pipe is not None
    return pipe  # type: ignore[no-any-return]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    given = arguments
    share = given.trees // given.clients
    quotas = {"max_open_trees": 2 * given.clients * given.open, "max_updates_per_s": 10_000_000}
    quotas["timeout_s"] = math.ceil(given.timeout)
    with DevCluster(conf={"acker.trees.namespaces": {NAMESPACE: quotas}}) as cluster:
        [acker] = cluster.client.cluster().ackers
        [pid] = [one.pid for one in cluster.processes if one.role == "acker"]
        used_s = cpu_s([pid])
        told = fan_out(
            acker.presence.address,
            NAMESPACE,
            share,
            given.children,
            given.clients,
            given.open,
            given.timeout,
            kill=given.kill,
        )
        acker_cpu_s, rss_mb = cpu_s([pid]) - used_s, peak_rss_mb([pid])
        ended = _ended(cluster.client, acker.presence.address, 4 * given.timeout)
    outcomes: Counter[str] = Counter()
    for one in told:
        outcomes.update(one["outcomes"])
    total = share * len(told)
    if outcomes.total() != total or (not given.kill and outcomes["done"] != total):
        raise WrongResultError(f"{total} trees of living clients ended as {dict(outcomes)}")
    if ended.begun != ended.done + ended.failed + ended.timed_out:
        raise WrongResultError(f"not every tree at the acker ended once: {ended}")
    took_s = max(one["took_s"] for one in told)
    return {
        "trees_per_s": round(total / took_s),
        "updates_per_s": round(total * (given.children + 1) / took_s),
        "took_s": round(took_s, 2),
        **{kind.replace(" ", "_"): count for kind, count in sorted(outcomes.items())},
        **{f"acker_{kind}": getattr(ended, kind) for kind in ("begun", "done", "failed", "timed_out")},
        "acker_cpu_us_a_tree": round(1e6 * acker_cpu_s / total, 1),
        "client_cpu_us_a_tree": round(1e6 * sum(one["cpu_s"] for one in told) / total, 1),
        "acker_rss_mb": round(rss_mb),
    }


def _ended(client: NimbusClient, acker: str, timeout_s: float) -> NamespaceSummary:
    """Return what the acker counted, once none of its trees is open."""

    def found() -> NamespaceSummary:
        return next(one for one in client.ledger(acker).namespaces if one.name == NAMESPACE)

    wait_until(lambda: found().open_trees == 0, timeout_s, what="every tree at the acker has ended")
    return found()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trees", type=int, default=100_000, help="of all clients (%(default)s)")
    parser.add_argument("--children", type=int, default=10, help="of each tree (%(default)s)")
    parser.add_argument("--clients", type=int, default=3, help="processes (%(default)s)")
    parser.add_argument("--open", type=int, default=1_000, help="most open trees of a client (%(default)s)")
    parser.add_argument("--timeout", type=float, default=10.0, help="of the trees, in seconds (%(default)s)")
    parser.add_argument("--kill", action="store_true", help="kill the last client half-way")


if __name__ == "__main__":
    sys.exit(_cli.run("trees", __doc__, add_arguments, measure))
