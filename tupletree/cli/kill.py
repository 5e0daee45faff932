"""``tupletree kill``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, names_argument, wait_option
from tupletree.cli.record import print_records

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("kill")
@names_argument
@wait_option
@json_option
@client_options
def command(client: NimbusClient, names: tuple[str, ...], wait_s: float | None, as_json: bool) -> None:
    """Stop topologies and remove them.

    The spouts stop at once. When no tuple is in flight, or after the wait, the workers stop and the topology is
    removed. Killing again sets a new wait.

    \b
    Example:
      tupletree kill word_count --wait 5
    """
    print_records([client.kill(name, wait_s) for name in names], as_json)
