"""``tupletree autoscale``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import clock, message_dict, print_json, print_table

if TYPE_CHECKING:
    from tupletree.client import Autoscaling, NimbusClient


@click.command("autoscale")
@name_argument
@json_option
@client_options
def command(client: NimbusClient, name: str, as_json: bool) -> None:
    """Show how nimbus would scale a topology by its load now, and why. The command changes nothing.

    A topology is scaled if its configuration has topology.autoscale, with the smallest and the largest number of
    executors of each bolt. 'tupletree config set' changes it while the topology runs.

    BUSY is the share of the time that the busiest thread with executors of the bolt was busy lately, with the work of
    others on that thread. DEMAND is the number of threads that the work of the bolt would have filled.

    \b
    Examples:
      tupletree autoscale word_count
      tupletree config set word_count topology.autoscale='{count: {min: 2, max: 8}}'
    """
    found = client.autoscaling(name)
    if as_json:
        print_json(message_dict(found.raw))
        return
    click.echo(f"{name}: {found.sentence}")
    if found.last is not None:
        click.echo(last_line(message_dict(found.last.raw)))
    if found.components:
        print_table(["component", "executors>", "wanted>", "bounds>", "busy>", "demand>", "why"], _rows(found))
        bound = f", at most {found.max_workers}" if found.max_workers else ", which stay as they are"
        click.echo(f"workers: {found.workers}, wanted {found.wanted_workers}{bound}")


def last_line(change: dict[str, Any]) -> str:
    """Return the last change of a topology by its load as one line."""
    parts = []
    if change["component"]:
        parts.append(f"{change['component']} from {change['executors_before']} to {change['executors']} executors")
    if change["workers"] != change["workers_before"]:
        parts.append(f"from {change['workers_before']} to {change['workers']} workers")
    return f"scaled by its load at {clock(change['at_unix_s'])}: {', '.join(parts)}: {change['reason']}"


def _rows(found: Autoscaling) -> list[tuple[Any, ...]]:
    return [
        (
            one.component,
            one.executors,
            one.wanted,
            f"{one.min}-{one.max}",
            f"{one.busy:.2f}",
            f"{one.demand:.2f}",
            one.reason,
        )
        for one in found.components
    ]
