"""``tupletree list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import duration, message_dict, print_json, print_table

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologySummary


@click.command("list")
@json_option
@client_options
def command(client: NimbusClient, as_json: bool) -> None:
    """Show the topologies of the cluster.

    WORKERS is ready/running/wanted. A topology has all its workers if the three are equal. If one has fewer, a line on
    standard error names the command that says why.
    """
    topologies = [summary_dict(summary) for summary in client.list()]
    if as_json:
        print_json(topologies)
        return
    if not topologies:
        click.echo("no topologies")
        return
    rows = [
        (
            topology["name"],
            topology["status"],
            f"{topology['workers_ready']}/{topology['workers_used']}/{topology['workers']}",
            topology["executors"],
            topology["tasks"],
            duration(topology["uptime_s"]),
            topology["owner"],
            topology["id"],
        )
        for topology in topologies
    ]
    print_table(["name", "status", "workers>", "executors>", "tasks>", "uptime>", "owner", "id"], rows)
    for topology in topologies:
        if topology["status"] == "active" and topology["workers_ready"] < topology["workers"]:
            click.echo(
                f"{topology['name']}: {topology['workers_ready']} of {topology['workers']} workers are ready; if this "
                f"stays so, 'tupletree {command_with_reason(topology)} {topology['name']}' says why",
                err=True,
            )


def command_with_reason(topology: dict[str, Any]) -> str:
    """``errors`` if workers run that are not ready; ``describe`` if workers lack a place."""
    return "errors" if topology["workers_ready"] < topology["workers_used"] else "describe"


def summary_dict(summary: TopologySummary) -> dict[str, Any]:
    """One topology in a line: what ``list --json`` prints."""
    record = summary.record
    return {
        "name": record.name,
        "id": record.id,
        "status": record.status,
        "owner": record.owner,
        "workers": record.workers,
        "workers_used": summary.workers_used,
        "workers_ready": summary.workers_ready,
        "executors": summary.executors_total,
        "tasks": summary.tasks_total,
        "acker_shards": record.acker_shards,
        "uptime_s": round(summary.uptime_s, 3),
        "submitted_unix_s": record.submitted_unix_s,
        "pending": message_dict(record.pending.raw) if record.pending is not None else None,
    }
