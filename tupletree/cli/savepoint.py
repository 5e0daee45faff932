"""``tupletree savepoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import print_json, print_table

if TYPE_CHECKING:
    from tupletree.client import NimbusClient


@click.command("savepoint")
@name_argument
@click.option(
    "--to",
    metavar="DIR",
    help="A directory, or an address such as s3://bucket/folder; default: NAME-CHECKPOINT in this directory.",
)
@click.option("--kill", is_flag=True, help="Stop the spouts first, and the topology afterwards.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="The longest wait for a checkpoint, in seconds; with --kill also for tuples in flight.",
)
@json_option
@client_options
def command(client: NimbusClient, name: str, to: str | None, kill: bool, wait_s: float, as_json: bool) -> None:
    """Write all states and positions of a topology to files: one checkpoint of all of them.

    The topology goes on; no checkpoint begins while its states are read, so acks wait for a moment. With --kill nothing
    is processed after the savepoint. The files are Parquet and JSON, which pandas, Spark and DuckDB read
    (docs/guides/savepoints.md); 'tupletree submit --from-savepoint' begins with them.

    \b
    Examples:
      tupletree savepoint words
      tupletree savepoint words --to s3://backups/words/monday
      tupletree savepoint words --to before-the-move --kill
    """
    made = client.savepoint(name, to, kill=kill, wait_secs=wait_s)
    if as_json:
        print_json(
            {
                "name": name,
                "savepoint": made.address,
                "checkpoint": made.checkpoint,
                "entries": dict(made.entries),
                "took_s": made.took_s,
                "killed": kill,
            }
        )
        return
    click.echo(f"checkpoint {made.checkpoint} of {name} is in {made.address}, after {made.took_s:.1f} s")
    print_table(["component", "entries>"], [(id, f"{count:,}") for id, count in made.entries.items()])
    if kill:
        click.echo(f"{name} is killed")
