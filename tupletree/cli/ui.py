"""``tupletree ui``."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import print_json
from tupletree.errors import UnavailableError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("ui")
@click.option("--open", "opens", is_flag=True, help="Open the UI in a browser on this machine.")
@json_option
@client_options
def command(client: NimbusClient, opens: bool, as_json: bool) -> None:
    """Print the address of the web UI at the leading nimbus. Every other nimbus serves the UI too.

    \b
    Examples:
      tupletree ui
      tupletree ui --open
    """
    address = web_address(client)
    if as_json:
        print_json({"url": address})
    else:
        click.echo(address)
    if opens and not webbrowser.open(address):
        raise UnavailableError(f"no browser could be started on this machine; open {address} yourself")


def web_address(client: NimbusClient) -> str:
    """The URL of the web UI at the leader. Raises UnavailableError if no leader is registered."""
    leaders = [one.presence for one in client.cluster().nimbuses if one.leader]
    if not leaders:
        raise UnavailableError("no nimbus leads; see 'tupletree health'")
    return f"{'https' if client.security.tls is not None else 'http'}://{leaders[0].http_address}/"
