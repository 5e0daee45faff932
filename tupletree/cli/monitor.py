"""``tupletree monitor``."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.figures import rates, totals
from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import console, count, duration, message_dict, millis, print_json, table
from tupletree.cli.statuses import status_dicts, status_lines
from tupletree.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tupletree.client import NimbusClient
    from tupletree.v1 import nimbus_pb2


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
    help="Time between two looks.",
)
@click.option(
    "-n", "--count", "looks", type=click.IntRange(min=1), help="Stop after so many looks; default: when interrupted."
)
@click.option("-m", "--component", help="Only this component.")
@json_option
@client_options
def command(
    client: NimbusClient, name: str, interval_s: float, looks: int | None, component: str | None, as_json: bool
) -> None:
    """Watch a topology live: tuples a second, latencies, and what is pending or queued, for each component.

    Rates and latencies are those of the last interval. PENDING is tuple trees for a spout, waiting tuples for a bolt.
    Below the table stands what tasks say of themselves: the batches of a pipeline, the transactions of a coordinator
    and how far its source is ahead.

    On a terminal the table is redrawn; elsewhere one is printed for each interval; with --json one line each.

    \b
    Examples:
      tupletree monitor word_count
      tupletree monitor word_count --interval 10 --count 6 --json > rates.jsonl
    """
    views = itertools.islice(_views(client, name, interval_s, component), looks)
    try:
        if as_json:
            for view in views:
                print_json(view)
        elif sys.stdout.isatty():
            _show_live(views)
        else:
            for view in views:
                console().print(_render(view))
    except KeyboardInterrupt:
        return


def _views(client: NimbusClient, name: str, interval_s: float, component: str | None) -> Iterator[dict[str, Any]]:
    """The topology's figures, interval after interval; the first after one interval."""
    before, before_s = client.describe(name), time.monotonic()
    _check_component(before, component)
    pause = threading.Event()
    while True:
        pause.wait(interval_s)
        now, now_s = client.describe(name), time.monotonic()
        yield view_dict(before, now, now_s - before_s, component)
        before, before_s = now, now_s


def view_dict(
    before: nimbus_pb2.DescribeTopologyReply,
    now: nimbus_pb2.DescribeTopologyReply,
    elapsed_s: float,
    component: str | None = None,
) -> dict[str, Any]:
    """One line of ``monitor --json``."""
    earlier = {stats.component_id: stats for stats in before.components}
    figures = [rates(earlier.get(stats.component_id), stats, elapsed_s) for stats in now.components]
    return {
        "at_unix_s": round(time.time(), 3),
        "interval_s": round(elapsed_s, 3),
        "name": now.summary.record.name,
        "status": message_dict(now.summary.record)["status"],
        "workers_ready": now.summary.workers_ready,
        "workers": now.summary.record.workers,
        "uptime_s": now.summary.uptime_s,
        "total": totals(figures),
        "components": [f for f in figures if component in (None, f["component"])],
        "statuses": [one for one in status_dicts(now) if component in (None, one["component"])],
        "unscheduled": now.unscheduled,
    }


def _check_component(reply: nimbus_pb2.DescribeTopologyReply, component: str | None) -> None:
    known = [spec.id for spec in reply.spec.components] or [stats.component_id for stats in reply.components]
    if component is not None and component not in known:
        raise UsageError(
            f"topology '{reply.summary.record.name}' has no component '{component}'; it has {', '.join(known)}"
        )


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
        title += f"\nnot running: {view['unscheduled']}"
    rows = [
        (
            f["component"],
            f["kind"],
            count(f["emitted_per_s"]),
            count(f["executed_per_s"]),
            count(f["acked_per_s"]),
            count(f["failed"]),
            count(f["pending"] if f["kind"] == "spout" else f["queued"]),
            millis(f["execute_ms"]),
            millis(f["process_ms"]),
            millis(f["complete_ms"]),
            f"{f['capacity']:.2f}" + (" congested" if f["congested"] else ""),
        )
        for f in view["components"]
    ]
    figures = table(
        [
            "component",
            "kind",
            "emitted/s>",
            "executed/s>",
            "acked/s>",
            "failed>",
            "pending>",
            "execute ms>",
            "process ms>",
            "complete ms>",
            "capacity>",
        ],
        rows,
        title,
    )
    return Group(figures, *(Text(line) for line in status_lines(view["statuses"])))
