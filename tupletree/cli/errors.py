"""``tupletree errors``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import clock, message_dict, print_json
from tupletree.errors import UsageError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("errors")
@click.argument("name")
@click.option("-m", "--component", help="Only this component's errors.")
@click.option("--traceback", "with_traceback", is_flag=True, help="Print the tracebacks too.")
@json_option
@client_options
def command(client: NimbusClient, name: str, component: str | None, with_traceback: bool, as_json: bool) -> None:
    """Show the newest errors of a topology's components, newest first.

    Errors are those that ended a worker and those that components reported. The newest ten of each component are kept.
    """
    reply = client.describe(name)
    errors = [message_dict(error) for error in reply.errors]
    known = {spec.id for spec in reply.spec.components} | {error["component_id"] for error in errors}
    if component is not None and component not in known:
        raise UsageError(f"topology '{name}' has no component '{component}'")
    errors = [error for error in errors if component in (None, error["component_id"])]
    if as_json:
        print_json(errors)
        return
    if not errors:
        click.echo("no errors")
    for error in errors:
        place = f"{error['host']}:{error['port']}"
        click.echo(
            f"{clock(error['at_unix_s'])}  {error['component_id']}[{error['task_id']}] on {place}: {error['message']}"
        )
        if with_traceback and error["traceback"]:
            click.echo("    " + error["traceback"].rstrip().replace("\n", "\n    "))
