"""``tupletree history``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tupletree._health.errors import complaints
from tupletree.cli.errors import print_error
from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import clock, count, duration, message_dict, print_json, print_table

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, PastTopology


@click.command("history")
@click.argument("name", required=False)
@json_option
@client_options
def command(client: NimbusClient, name: str | None, as_json: bool) -> None:
    """Show the topologies that were removed, the last one first.

    With NAME, a name or an id, show what is remembered of the topology that had it last: who removed it, the tuples
    that each component handled, its workers and its last errors. With --json and NAME, print all that had the name, the
    last 20 at most. 'tupletree logs' reads the logs for as long as the supervisors keep them.

    \b
    Examples:
      tupletree history
      tupletree history word_count
      tupletree logs word_count-3-1700000000
    """
    found = client.history(name)
    if as_json:
        print_json([_entry(one) if name else _summary(one) for one in found])
    elif name:
        _print(found[0], found[1:])
    elif found:
        _table(found)
    else:
        click.echo("no removed topologies")


def _summary(one: PastTopology) -> dict[str, Any]:
    return {
        "name": one.name,
        "id": one.id,
        "owner": one.owner,
        "submitted_unix_s": one.submitted_unix_s,
        "removed_unix_s": one.removed_unix_s,
        "ran_s": round(_ran_s(one), 3),
        "killed_by": one.killed_by,
        "version": one.version,
    }


def _entry(one: PastTopology) -> dict[str, Any]:
    """One topology in full: what ``history NAME --json`` prints for each."""
    workers = [{"host": at.host, "port": at.port, "supervisor_id": at.supervisor_id} for at in one.workers]
    return {
        **_summary(one),
        "users": list(one.users),
        "readers": list(one.readers),
        "components": [message_dict(component.raw) for component in one.components],
        "workers": workers,
        "errors": [message_dict(error.raw) for error in one.errors],
        "is_shortened": one.is_shortened,
    }


def _ran_s(one: PastTopology) -> float:
    return max(0.0, one.removed_unix_s - one.submitted_unix_s)


def _table(found: tuple[PastTopology, ...]) -> None:
    rows = [
        (one.name, one.id, one.owner, duration(_ran_s(one)), clock(one.removed_unix_s), one.killed_by or "-")
        for one in found
    ]
    print_table(["name", "id", "owner", "ran for>", "removed", "killed by"], rows)


def _print(one: PastTopology, earlier: tuple[PastTopology, ...]) -> None:
    by = f", killed by {one.killed_by}" if one.killed_by else ""
    click.echo(
        f"{one.name} ({one.id}) was removed at {clock(one.removed_unix_s)}{by}; it ran for {duration(_ran_s(one))}, "
        f"version {one.version}, submitted by {one.owner or 'an unknown user'}"
    )
    if one.workers:
        click.echo(f"workers {', '.join(f'{at.host}:{at.port}' for at in one.workers)}")
    rows = [
        (c.component_id, c.tasks, count(c.emitted), count(c.executed), count(c.acked), count(c.failed))
        for c in one.components
    ]
    print_table(["component", "tasks>", "emitted>", "executed>", "acked>", "failed>"], rows)
    for complaint in complaints([error.raw for error in one.errors], {}, (), one.removed_unix_s):
        print_error(replace(complaint, is_over=False), with_traceback=True)
    if one.is_shortened:
        click.echo("some components, workers, errors or tracebacks did not fit and are left out")
    if earlier:
        click.echo(f"earlier topologies of this name: {', '.join(each.id for each in earlier)}")
    click.echo(f"its logs, while supervisors keep them: tupletree logs {one.id}")
