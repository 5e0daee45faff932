"""Nexmark's queries as programs of streams: events per second.

    python -m bench.nexmark --events 200000 --json
    python -m bench.nexmark --query q5 --workers 2 --record

Events are persons, auctions and bids of an auction site (1 : 3 : 46), a thousand per second of event time, up to half a
second out of order. They are made before the clock starts. Each component has one executor per worker. Every event is
tracked; the clock runs from the first emit to the last ack. The results of a query must be those of plain Python over
the same events, else the exit status is 1. With ``--query all``, the queries run one after the other on one cluster.

``flink_``: the query in Flink SQL by PyFlink, if ``python -m bench.peers setup --only flink`` has installed it, with
the same parallelism: from the start of the job, the second of its JVM, until it has read the events from a file, as
lines of CSV, and is done. Its results are not compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._flow import Run, drive, tell, told
from bench.nexmark import flink
from bench.nexmark.events import Event, closing, last_ms
from bench.nexmark.queries import QUERIES
from bench.nexmark.results import expected
from bench.nexmark.topology import REPORT, SINK, digest, regular_events, topology
from bench.peers import environments
from tupletree.testing import DevCluster, wait_until


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the queries once on a cluster with enough slots and ackers; return their metrics, of several by query.

    Raises:
        WrongResultError: the results of a query are not those of its reference.
    """
    queries = list(QUERIES) if arguments.query == "all" else [arguments.query]
    events = events_of(arguments)
    found = {query: measure_query(cluster, query, events, arguments) for query in queries}
    others = flink.figures(queries, [*events, *closing(events)], arguments.workers, Path(arguments.venvs).expanduser())
    result = {query: {**found[query], **others[query]} for query in queries}
    return result if len(result) > 1 else result[queries[0]]


def events_of(arguments: argparse.Namespace) -> list[Event]:
    """Return the events of a run, without those that close windows: as many for each task of the source."""
    return regular_events(arguments.events // arguments.workers * arguments.workers)


def measure_query(
    cluster: DevCluster, query: str, regular: Sequence[Event], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run one query, and return its metrics. Raises WrongResultError as ``measure_on``."""
    tasks = arguments.workers
    events = [*regular, *closing(regular)]
    last = last_ms(regular)
    truth = digest(expected(query, events, last))
    conf = {
        "topology.workers": tasks,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    with tempfile.TemporaryDirectory(prefix="bench-nexmark-") as directory:

        def check() -> None:
            tell(directory, REPORT, {})
            try:
                wait_until(lambda: sums(directory, tasks) == truth, 20, what="the results are complete")
            except TimeoutError:
                raise WrongResultError(f"{query} had {sums(directory, tasks)}, not {truth}") from None

        program = topology(query, directory, len(regular), len(events), tasks, last)
        run = Run(f"nexmark-{query}", program, conf, directory, tasks, [], 0)
        flow = drive(cluster, run, look=check)
    return {**flow.figures(len(events), "event"), "results": truth["count"]}


def sums(directory: str, tasks: int) -> dict[str, int]:
    """Return the digest of what all tasks of the sink have had so far."""
    parts: Sequence[dict[str, int]] = [told(directory, f"{SINK}-{task}") or {} for task in range(tasks)]
    return {name: sum(part.get(name, 0) for part in parts) for name in ("count", "checksum")}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--query", choices=(*QUERIES, "all"), default="all")
    parser.add_argument("--events", type=int, default=200_000, help="without those that close windows (%(default)s)")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=2)
    parser.add_argument("--ackers", type=int, default=1)
    parser.add_argument("--pending", type=int, default=50_000, help="topology.max.spout.pending, of each spout")
    parser.add_argument("--venvs", default=str(environments.DEFAULT), help="the folder of bench.peers setup")


if __name__ == "__main__":
    sys.exit(_cli.run("nexmark", __doc__, add_arguments, measure))
