"""``tupletree errors``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tupletree._health.errors import Complaint, complaints, latest_of_each
from tupletree.cli.options import client_options, complete_components, json_option, name_argument
from tupletree.cli.output import clock, message_dict, print_json
from tupletree.cli.statuses import printable
from tupletree.errors import UsageError
from tupletree.parallelism import tasks_of_record

if TYPE_CHECKING:
    from tupletree.client import NimbusClient

_LONGEST = 2000


@click.command("errors")
@name_argument
@click.option("-m", "--component", shell_complete=complete_components, help="Only this component's errors.")
@click.option(
    "-a", "--all", "wants_all", is_flag=True, help="Show all stored errors, not only the newest per component."
)
@click.option("--traceback/--no-traceback", "with_traceback", default=True, help="Print the tracebacks; default: yes.")
@json_option
@client_options
def command(
    client: NimbusClient, name: str, component: str | None, wants_all: bool, with_traceback: bool, as_json: bool
) -> None:
    """Show the newest error of each of a topology's components, with its traceback.

    Errors either ended a worker or were reported by a component; nimbus keeps the newest ten per component. Equal
    errors are shown once, with their count and tasks. An error is marked as over when its component is healthy again:
    all its workers are ready, and the worker with the error was restarted and has run for 90 seconds, or the error is
    ten minutes old.

    Exit status 0 even if there are errors; 2 if the topology or the component is not found.

    \b
    Examples:
      tupletree errors word_count
      tupletree errors word_count -m split --all --no-traceback
    """
    reply = client.describe(name)
    known = {spec.id for spec in reply.spec.components} | {error.component_id for error in reply.errors}
    if component is not None and component not in known:
        raise UsageError(f"topology '{name}' has no component '{component}'; it has {', '.join(sorted(known))}")
    errors, workers = [error.raw for error in reply.errors], [worker.raw for worker in reply.workers]
    found = complaints(errors, tasks_of_record(reply.summary.record.raw), workers, time.time(), component)
    shown = found if wants_all else latest_of_each(found)
    if as_json:
        print_json([_as_dict(one) for one in shown])
        return
    if not shown:
        click.echo("no errors")
    for one in shown:
        print_error(one, with_traceback)
    if len(found) > len(shown):
        more = len(found) - len(shown)
        click.echo(f"{more} more error{'' if more == 1 else 's'}; show all with --all")


def _as_dict(one: Complaint) -> dict[str, Any]:
    return {
        **message_dict(one.latest),
        "count": one.count,
        "first_unix_s": one.first_unix_s,
        "tasks": list(one.tasks),
        "places": list(one.places),
        "is_over": one.is_over,
    }


def print_error(one: Complaint, with_traceback: bool) -> None:
    """Print an error on one line, and its traceback below."""
    error = one.latest
    tasks = ",".join(map(str, one.tasks))
    times = f" {one.count} times since {clock(one.first_unix_s)}" if one.count > 1 else ""
    over = " (over: healthy again)" if one.is_over else ""
    click.echo(
        f"{clock(error.at_unix_s)}  {error.component_id}[{tasks}] on {', '.join(one.places)}{times}{over}: "
        f"{printable(error.message, _LONGEST)}"
    )
    if with_traceback and error.traceback:
        for line in error.traceback.rstrip().split("\n"):
            click.echo(f"    {printable(line.expandtabs(), _LONGEST)}")
