"""Yahoo's streaming benchmark: ad events per second, and the time inside each component. Needs redis-server.

    python -m bench.yahoo --events 200000 --json

    events (JSON) -> parse -> filter views -> project -> join ad with campaign (Redis) -> ten-second windows (Redis)

A third of the events are views. The join asks Redis for an ad that is new to its task; the windows bolt adds its new
counts to Redis every second. Each worker runs one task of each component. Components are connected by shuffle groupings
as in the original (--local: local_or_shuffle), and the last by a fields grouping by campaign. Every event is tracked.
Events are made before the clock starts, except for their times; event time advances by a second per --event-rate
events. The clock runs from the first emit to the last ack.

The windows in Redis must be those of the events, else the exit status is 1.

``inside_us_per_event`` is the wall-clock time in each component's ``execute``, including emits and waits for Redis, per
input event. ``cpu_us_per_event_of`` is the processor time of workers, acker and Redis. On an otherwise idle machine,
the difference between the workers' processor time and the sum of the times inside is decoding, encoding, acking and the
network.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from bench import _cli
from bench._ads import Events, Filter, Join, Parse, Project, Windows, load_ads, read_windows, true_windows
from bench._cli import WrongResultError
from bench._flow import Run, drive
from bench._redis import redis_server
from tupletree import Topology, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

NAME = "yahoo"
SEED = 20_260_102


def topology(directory: str, url: str, arguments: argparse.Namespace) -> Topology:
    """Return the topology, with each component once per worker."""
    tasks = arguments.workers
    builder = TopologyBuilder()
    builder.set_spout("events", Events(directory, arguments.events // tasks, arguments.event_rate, SEED), tasks)
    before = "events"
    for name, bolt in (("parse", Parse()), ("filter", Filter()), ("project", Project()), ("join", Join(url))):
        declared = builder.set_bolt(name, bolt, tasks)
        if arguments.local:
            declared.local_or_shuffle_grouping(before)
        else:
            declared.shuffle_grouping(before)
        before = name
    builder.set_bolt("windows", Windows(url), tasks).fields_grouping(before, ["campaign_id"])
    return builder.create_topology()


def inside(cluster: DevCluster, events: int, views: int) -> dict[str, float]:
    """Return the seconds inside each component, once nimbus knows of every tuple.

    Raises:
        WrongResultError: the statistics were not complete within some seconds.
    """
    wanted = {"parse": events, "filter": events, "project": views, "join": views}
    seen: Mapping[str, Any] = {}

    def is_known() -> bool:
        nonlocal seen
        seen = {one.component_id: one.total for one in cluster.client.describe(NAME).components}
        return all(seen[name].executed == count for name, count in wanted.items())

    try:
        wait_until(is_known, 20, what="the statistics are complete")
    except TimeoutError:
        raise WrongResultError(f"executed { {name: seen[name].executed for name in wanted} }, not {wanted}") from None
    return {name: total.execute_s for name, total in seen.items() if total.executed}


def measure_on(cluster: DevCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a cluster with enough slots and ackers, and return the metrics.

    Raises:
        WrongResultError: the windows in Redis are not those of the events.
    """
    events = arguments.events // arguments.workers * arguments.workers
    truth = true_windows(events, arguments.event_rate, SEED)
    inside_s: dict[str, float] = {}
    conf = {
        "topology.workers": arguments.workers,
        "topology.acker.executors": arguments.ackers,
        "topology.max.spout.pending": arguments.pending,
    }
    with tempfile.TemporaryDirectory(prefix="bench-yahoo-") as directory, redis_server() as (url, pid):
        load_ads(url, SEED)

        def look() -> None:
            wait_until(
                lambda: read_windows(url, SEED).total() >= truth.total(), 20, what="the last windows are written"
            )
            inside_s.update(inside(cluster, events, truth.total()))

        run = Run(NAME, topology(directory, url, arguments), conf, directory, arguments.workers, [], 0)
        flow = drive(cluster, run, {"redis": [pid]}, look)
        if read_windows(url, SEED) != truth:
            raise WrongResultError("the windows in Redis are not those of the events")
    return {
        **flow.figures(events, "event"),
        "views": truth.total(),
        "windows": len(truth),
        "inside_us_per_event": per_event(inside_s, events),
        "cpu_us_per_event_of": per_event(flow.cpu_s, events),
    }


def per_event(seconds: Mapping[str, float], events: int) -> dict[str, float]:
    """Convert seconds to microseconds per event."""
    return {name: round(1e6 * value / events, 2) for name, value in seconds.items()}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run once on a fresh cluster and return the metrics."""
    with DevCluster(slots=arguments.workers, ackers=max(1, arguments.ackers)) as cluster:
        return measure_on(cluster, arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--event-rate", type=float, default=10_000, help="events per event-time second (%(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ackers", type=int, default=1)
    parser.add_argument("--pending", type=int, default=2_000, help="topology.max.spout.pending, of each spout")
    parser.add_argument("--local", action="store_true", help="local_or_shuffle groupings in place of shuffle")


if __name__ == "__main__":
    sys.exit(_cli.run("yahoo", __doc__, add_arguments, measure))
