"""``tupletree activate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, names_argument
from tupletree.cli.record import print_records

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("activate")
@names_argument
@json_option
@client_options
def command(client: NimbusClient, names: tuple[str, ...], as_json: bool) -> None:
    """Resume the spouts of deactivated topologies. Has no effect on active topologies."""
    print_records([client.activate(name) for name in names], as_json)
