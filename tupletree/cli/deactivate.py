"""``tupletree deactivate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, names_argument
from tupletree.cli.record import print_records

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("deactivate")
@names_argument
@json_option
@client_options
def command(client: NimbusClient, names: tuple[str, ...], as_json: bool) -> None:
    """Stop the spouts of topologies. Bolts finish the tuples in flight. Resume with 'activate'."""
    print_records([client.deactivate(name) for name in names], as_json)
