"""``tupletree transactions``."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json, print_table
from tupletree.cli.stores import opened_store
from tupletree.errors import UsageError
from tupletree.transactional.progress import forget
from tupletree.transactional.status import Status, load_status, transactional_ids


@click.command("transactions")
@click.argument("transactional_ids_", metavar="[ID]...", nargs=-1)
@click.option("--forget", "is_forgotten", is_flag=True, help="Delete the progress: the next topology begins at 1.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting.")
@json_option
@conf_options
def command(
    transactional_ids_: tuple[str, ...],
    is_forgotten: bool,
    yes: bool,
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Show how far transactional topologies have come, by the id that they were built with.

    It is read from ZooKeeper (transactional.zookeeper.servers, else zookeeper.servers; below
    transactional.zookeeper.root), also when no topology runs. If a topology sets these keys itself, name them with -c.

    COMMITTED is the last transaction that took effect, COMMITTING the one whose commit may have begun, BEGUN the last
    one whose batch is decided on. EPOCH counts the coordinators there were: it grows with each restart of a worker that
    runs one, and with each topology that takes over.

    \b
    Examples:
      tupletree transactions
      tupletree transactions global-count --json
      tupletree transactions -c zookeeper.port=3181    of a cluster whose ZooKeeper has that port
      tupletree transactions global-count --forget     kill the topology first, and empty its tables
    """
    from tupletree.config import load

    if is_forgotten and not transactional_ids_:
        raise UsageError("--forget needs the id of what is to be forgotten")
    conf = load(conf_path, overrides)
    with opened_store(conf) as store:
        found = [load_status(store, one) for one in dict.fromkeys(transactional_ids_) or transactional_ids(store)]
        if is_forgotten:
            for one in found:
                if not yes:
                    click.confirm(f"Forget that {one.committed} transactions of '{one.id}' are committed?", abort=True)
                forget(store, one.id)
    _print(found, as_json, str(conf["transactional.zookeeper.root"]))
    if is_forgotten and not as_json:
        click.echo(f"forgotten: {', '.join(one.id for one in found)}")


def _print(found: list[Status], as_json: bool, root: str) -> None:
    if as_json:
        print_json([_status_dict(one) for one in found])
    elif not found:
        click.echo(f"no transactional topology has run yet: ZooKeeper has no progress below /{root.strip('/')}")
    else:
        rows = [
            (one.id, one.committed, one.committing or "", one.begun, one.partitions, one.epoch, one.owner)
            for one in found
        ]
        print_table(["id", "committed>", "committing", "begun>", "partitions>", "epoch>", "last coordinator"], rows)


def _status_dict(status: Status) -> dict[str, Any]:
    committing = status.committing
    return {
        **dataclasses.asdict(status),
        "committing": None if committing is None else {"txid": committing.txid, "attempt": committing.attempt},
    }
