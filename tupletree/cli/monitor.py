"""``tupletree monitor``."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.figures import component_figures, rates, stream_rates, totals
from tupletree.cli.options import client_options, complete_components, json_option, name_argument
from tupletree.cli.output import clock, console, count, duration, millis, print_json, table
from tupletree.cli.statuses import status_dicts, status_lines
from tupletree.cli.workers import check_component
from tupletree.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tupletree.client import NimbusClient, TopologyDescription


@click.command("monitor")
@name_argument
@click.option(
    "-i",
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
@click.option(
    "-n", "--count", "looks", type=click.IntRange(min=1), help="Stop after N samples; default: when interrupted."
)
@click.option("-m", "--component", shell_complete=complete_components, help="Only this component.")
@click.option("-s", "--stream", help="Count emitted and transferred tuples of this stream only.")
@click.option(
    "-w",
    "--watch",
    type=click.Choice(["emitted", "transferred"]),
    help="Print one line per sample, component and stream, with the rate.",
)
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    interval_s: float,
    looks: int | None,
    component: str | None,
    stream: str | None,
    watch: str | None,
    as_json: bool,
) -> None:
    """Watch a topology live: tuples per second, latencies, and pending or queued tuples, per component.

    Rates and latencies cover the last interval. PENDING counts tuple trees for a spout, waiting tuples for a bolt.
    CAPACITY is the fraction of the last ten minutes that the busiest executor spent executing. Latencies are from
    execute to ack for a bolt, from emit to ack for a spout: mean, median and 99th percentile. Below the table follow
    the statuses that tasks report: the batches of a pipeline, the transactions of a coordinator and its source's lag.

    A terminal shows the table in place; otherwise the command prints a table per interval, with --json a line. The
    command waits for a nimbus that is unavailable. Exit status 2 if the topology, component or stream is not found.

    \b
    Examples:
      tupletree monitor word_count
      tupletree monitor word_count -m split -w emitted -i 4
      tupletree monitor word_count --interval 10 --count 6 --json > rates.jsonl
    """
    views = itertools.islice(_views(client, name, interval_s, component, stream), looks)
    try:
        if as_json:
            for view in views:
                print_json(view)
                sys.stdout.flush()
        elif watch is not None:
            for view in views:
                _print_watched(view, watch)
        elif sys.stdout.isatty():
            _show_live(views)
        else:
            for view in views:
                console().print(_render(view))
    except KeyboardInterrupt:
        return


def _views(
    client: NimbusClient, name: str, interval_s: float, component: str | None, stream: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the topology's metrics at the end of each interval."""
    before, before_s = client.describe(name), time.monotonic()
    check_component(before, component)
    _check_stream(before, component, stream)
    pause = threading.Event()
    while True:
        pause.wait(interval_s)
        now, now_s = client.describe(name), time.monotonic()
        yield view_dict(before, now, now_s - before_s, component, stream)
        before, before_s = now, now_s


def view_dict(
    before: TopologyDescription,
    now: TopologyDescription,
    elapsed_s: float,
    component: str | None = None,
    stream: str | None = None,
) -> dict[str, Any]:
    """One line of ``monitor --json``."""
    earlier = {stats.component_id: stats for stats in before.components}
    figures = [rates(earlier.get(stats.component_id), stats, elapsed_s) for stats in now.components]
    for one in figures:
        old = earlier.get(one["component"])
        if old is not None:
            one["watched_per_s"] = stream_rates(component_figures(old), one, stream, elapsed_s)
    return {
        "at_unix_s": round(time.time(), 3),
        "interval_s": round(elapsed_s, 3),
        "name": now.summary.record.name,
        "status": now.summary.record.status,
        "workers_ready": now.summary.workers_ready,
        "workers": now.summary.record.workers,
        "uptime_s": now.summary.uptime_s,
        "stream": stream,
        "total": totals(figures),
        "components": [f for f in figures if component in (None, f["component"])],
        "statuses": [one for one in status_dicts(now) if component in (None, one["component"])],
        "unscheduled": now.unscheduled,
    }


def _check_stream(reply: TopologyDescription, component: str | None, stream: str | None) -> None:
    declared = [one.id for spec in reply.spec.components if component in (None, spec.id) for one in spec.outputs]
    if stream is not None and reply.spec.components and stream not in declared:
        whose = f"component '{component}'" if component else f"topology '{reply.summary.record.name}'"
        known = ", ".join(sorted(set(declared))) or "none"
        raise UsageError(f"{whose} declares no stream '{stream}'; declared streams: {known}")


def _print_watched(view: dict[str, Any], watch: str) -> None:
    at = clock(view["at_unix_s"])
    for one in view["components"]:
        per_s = one.get("watched_per_s", {}).get(watch, 0.0)
        stream = view["stream"] or "all streams"
        parallelism = f"{one['executors']}/{one['tasks']}"
        click.echo(f"{at}  {view['status']}  {one['component']}  {parallelism}  {stream}  {watch} {count(per_s)}/s")
    sys.stdout.flush()


def _show_live(views: Iterator[dict[str, Any]]) -> None:
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        for view in views:
            live.update(_render(view), refresh=True)


def _render(view: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    total = view["total"]
    title = (
        f"{view['name']} is {view['status']}, up {duration(view['uptime_s'])}, "
        f"{view['workers_ready']}/{view['workers']} workers ready; acked {count(total['acked'])} "
        f"({count(total['acked_per_s'])}/s), failed {count(total['failed'])}, pending {count(total['pending'])}"
    )
    if view["unscheduled"]:
        title += f"\nnot fully scheduled: {view['unscheduled']}"
    rows = [_row(figures) for figures in view["components"]]
    headings = ["component", "kind", "emitted/s>", "executed/s>", "acked/s>", "failed>", "pending>"]
    headings += ["execute ms>", "latency ms>", "p50>", "p99>", "capacity>"]
    figures = table(headings, rows, title)
    return Group(figures, *(Text(line) for line in status_lines(view["statuses"])))


def _row(f: dict[str, Any]) -> tuple[str, ...]:
    is_spout = f["kind"] == "spout"
    latency = "complete" if is_spout else "process"
    watched = f.get("watched_per_s", {})
    return (
        f["component"],
        f["kind"],
        count(watched.get("emitted", f["emitted_per_s"])),
        count(f["executed_per_s"]),
        count(f["acked_per_s"]),
        count(f["failed"]),
        count(f["pending"] if is_spout else f["queued"]),
        millis(f["execute_ms"]),
        millis(f[f"{latency}_ms"]),
        millis(f[f"{latency}_p50_ms"]),
        millis(f[f"{latency}_p99_ms"]),
        f"{f['capacity']:.2f}" + (" congested" if f["congested"] else ""),
    )
