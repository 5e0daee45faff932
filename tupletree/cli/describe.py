"""``tupletree describe``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.autoscale import last_line
from tupletree.cli.config_topology import changed_lines, settings_of
from tupletree.cli.figures import component_figures
from tupletree.cli.list import summary_dict
from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import clock, count, duration, message_dict, millis, print_json, print_table
from tupletree.cli.record import waits_for
from tupletree.cli.resources import needs_line
from tupletree.cli.statuses import status_dicts, status_lines

if TYPE_CHECKING:
    from tupletree.client import AutoscaleChange, NimbusClient, TopologyDescription, TopologyVersion


@click.command("describe")
@name_argument
@json_option
@client_options
def command(client: NimbusClient, name: str, as_json: bool) -> None:
    """Show one topology: its components with their metrics, its workers, ledger shards and newest errors.

    Counters are totals since the workers started. EXECUTE is the time inside a bolt's execute, PROCESS from execute to
    ack, COMPLETE from a spout's emit to its ack, each the mean in milliseconds. CAPACITY is the share of the last ten
    minutes that the busiest executor spent executing; at 1.0 the component needs more executors. Below the components
    follow the statuses that tasks report, such as the batches of a pipeline.
    """
    reply = client.describe(name)
    described = describe_dict(reply)
    if as_json:
        print_json(described)
    else:
        _print(described)
        if described["is_placed_by_resources"]:
            for component, needs in sorted(reply.summary.record.needs.items()):
                click.echo(needs_line(component, needs))


def describe_dict(reply: TopologyDescription) -> dict[str, Any]:
    """The document of ``describe --json``."""
    return {
        **summary_dict(reply.summary),
        "unscheduled": reply.unscheduled,
        "needs": {name: message_dict(one.raw) for name, one in reply.summary.record.needs.items()},
        "is_placed_by_resources": any(one.memory_mb for one in reply.assignment.workers),
        "conf": reply.summary.record.conf,
        "version": reply.summary.record.version,
        "previous_version": _number(reply.summary.record.previous),
        "autoscaled": _message(reply.summary.record.autoscaled),
        "is_starting_update": bool(reply.summary.record.trial_began_unix_s),
        "changed_conf": [one for one in settings_of(reply.summary.record) if "submitted" in one or "pending" in one],
        "components": [component_figures(component) for component in reply.components],
        "statuses": status_dicts(reply),
        "inputs": [
            {"component": component.id, **message_dict(subscription.raw)}
            for component in reply.spec.components
            for subscription in component.inputs
        ],
        "worker_processes": [message_dict(worker.raw) for worker in reply.workers],
        "shards": [message_dict(shard.raw) for shard in reply.assignment.shards],
        "assignment_version": reply.assignment.version,
        "errors": [message_dict(error.raw) for error in reply.errors],
    }


def _message(change: AutoscaleChange | None) -> dict[str, Any] | None:
    return None if change is None else message_dict(change.raw)


def _number(version: TopologyVersion | None) -> int | None:
    return None if version is None else version.number


def _print(topology: dict[str, Any]) -> None:
    click.echo(
        f"{topology['name']} ({topology['id']}) is {topology['status']}, up {duration(topology['uptime_s'])}, "
        f"submitted by {topology['owner'] or 'an unknown user'}"
    )
    click.echo(
        f"workers {topology['workers_ready']} ready of {topology['workers_used']} running and "
        f"{topology['workers']} wanted, {topology['executors']} executors, {topology['tasks']} tasks, "
        f"{topology['acker_shards']} ledger shards"
    )
    if wait := waits_for(topology["pending"], time.time()):
        click.echo(wait)
    if (before := topology["previous_version"]) is not None:
        state = ", whose workers are starting" if topology["is_starting_update"] else ""
        click.echo(
            f"version {topology['version']}{state}; 'tupletree rollback {topology['name']}' goes back to {before}"
        )
    scaled = topology["autoscaled"]
    for line in (*([] if scaled is None else [last_line(scaled)]), *changed_lines(topology["changed_conf"])):
        click.echo(line)
    if topology["unscheduled"]:
        click.echo(f"not fully scheduled: {topology['unscheduled']}")
    print_components(topology["components"])
    for figures in topology["components"]:
        if figures["remark"]:
            click.echo(f"{figures['component']}: {figures['remark']}")
    for line in status_lines(topology["statuses"]):
        click.echo(line)
    workers = [
        (
            f"{w['host']}:{w['port']}",
            w["pid"],
            "yes" if w["ready"] else "no",
            duration(w["uptime_s"]),
            len(w["tasks"]),
            w["http_port"],
            w["worker_id"],
        )
        for w in topology["worker_processes"]
    ]
    print_table(["worker", "pid>", "ready", "uptime>", "tasks>", "http>", "id"], workers)
    shards = [
        (s["shard"], s["acker_id"] or "none yet", s["address"], s["draining_address"]) for s in topology["shards"]
    ]
    if shards:
        print_table(["shard>", "acker", "address", "draining"], shards)
    errors = [(clock(e["at_unix_s"]), e["component_id"], e["task_id"], e["message"]) for e in topology["errors"][:5]]
    if errors:
        print_table(["error at", "component", "task>", "message"], errors)


def print_components(components: list[dict[str, Any]]) -> None:
    """The components' totals as a table."""
    rows = [
        (
            f["component"],
            f["kind"],
            f"{f['executors']}/{f['tasks']}",
            count(f["emitted"]),
            count(f["executed"]),
            count(f["acked"]),
            count(f["failed"]),
            count(f["pending"] if f["kind"] == "spout" else f["queued"]),
            millis(f["execute_ms"]),
            millis(f["process_ms"]),
            millis(f["complete_ms"]),
            f"{f['capacity']:.2f}",
        )
        for f in components
    ]
    print_table(
        [
            "component",
            "kind",
            "executors/tasks>",
            "emitted>",
            "executed>",
            "acked>",
            "failed>",
            "pending>",
            "execute ms>",
            "process ms>",
            "complete ms>",
            "capacity>",
        ],
        rows,
    )
