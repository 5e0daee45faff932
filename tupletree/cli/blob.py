"""``tupletree blob``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import clock, count, message_dict, print_json, print_table
from tupletree.cli.submit import upload_progress

if TYPE_CHECKING:
    from tupletree.client import BlobSummary, NimbusClient


@click.group("blob")
def command() -> None:
    """Store files for workers: models and tables that are too large for a bundle, or change while topologies run.

    A topology names the blobs that it needs in topology.blobstore.map. Each machine fetches them once, and components
    open them by their local names: context.blob("model.bin"). See docs/guides/blobs.md.

    \b
    Examples:
      tupletree blob put model model-1.bin
      tupletree submit scores.py -c 'topology.blobstore.map={"model": {"localname": "model.bin"}}'
      tupletree blob update model model-2.bin
      tupletree blob list
    """


@command.command("put")
@click.argument("key")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option("--user", "users", multiple=True, metavar="USER", help="User who may change the blob; may be repeated.")
@click.option(
    "--readonly-user",
    "readonly_users",
    multiple=True,
    metavar="USER",
    help="User who may read the blob, and name it in topologies; may be repeated.",
)
@json_option
@client_options
def put(
    client: NimbusClient, key: str, file: str, users: tuple[str, ...], readonly_users: tuple[str, ...], as_json: bool
) -> None:
    """Store FILE as the first version of a new blob KEY."""
    with upload_progress() as progress:
        stored = client.put_blob(key, file, users=users, readonly_users=readonly_users, progress=progress)
    _report(stored, as_json)


@command.command("update")
@click.argument("key")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@json_option
@client_options
def update(client: NimbusClient, key: str, file: str, as_json: bool) -> None:
    """Give blob KEY the content of FILE: its next version, which running workers adopt."""
    with upload_progress() as progress:
        stored = client.update_blob(key, file, progress=progress)
    _report(stored, as_json)


@command.command("list")
@json_option
@client_options
def list_(client: NimbusClient, as_json: bool) -> None:
    """Show the blobs of the cluster that you may read."""
    blobs = client.blobs()
    if as_json:
        print_json([_facts(one) for one in blobs])
    elif not blobs:
        click.echo("no blobs")
    else:
        rows = [_row(one) for one in blobs]
        print_table(["key", "version>", "bytes>", "updated", "owner", "topologies"], rows)


@command.command("show")
@click.argument("key")
@json_option
@client_options
def show(client: NimbusClient, key: str, as_json: bool) -> None:
    """Show blob KEY: its version, its digest, who may use it, and the topologies that name it."""
    facts = _facts(client.blob(key))
    if as_json:
        print_json(facts)
        return
    facts |= {name: clock(facts[name]) for name in ("created_unix_s", "updated_unix_s")}
    for name, value in facts.items():
        shown = ", ".join(value) or "-" if isinstance(value, list) else value
        click.echo(f"{name.removesuffix('_unix_s').replace('_', ' ')}: {shown}")


@command.command("get")
@click.argument("key")
@click.argument("file", type=click.Path(dir_okay=False))
@json_option
@client_options
def get(client: NimbusClient, key: str, file: str, as_json: bool) -> None:
    """Write the newest version of blob KEY to FILE."""
    found = client.get_blob(key, file)
    if as_json:
        print_json(_facts(found) | {"file": file})
    else:
        click.echo(f"{file} has version {found.record.version} of blob {key}, {count(found.record.bytes)} bytes")


@command.command("delete")
@click.argument("key")
@click.option("--force", is_flag=True, help="Delete it although topologies name it: workers that start later fail.")
@json_option
@client_options
def delete(client: NimbusClient, key: str, force: bool, as_json: bool) -> None:
    """Delete blob KEY. Refused while a topology names it."""
    client.delete_blob(key, force=force)
    if as_json:
        print_json({"key": key, "deleted": True})
    else:
        click.echo(f"blob {key} is deleted")


def _report(stored: BlobSummary, as_json: bool) -> None:
    record = stored.record
    if as_json:
        print_json(_facts(stored))
    else:
        click.echo(f"blob {record.key} has version {record.version}, {count(record.bytes)} bytes")


def _facts(blob: BlobSummary) -> dict[str, Any]:
    return message_dict(blob.record.raw) | {"topologies": list(blob.topologies)}


def _row(blob: BlobSummary) -> tuple[str, ...]:
    record = blob.record
    names = ", ".join(blob.topologies) or "-"
    return record.key, str(record.version), count(record.bytes), clock(record.updated_unix_s), record.owner, names
