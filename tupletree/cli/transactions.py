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
@click.option("--forget", "is_forgotten", is_flag=True, help="Delete the progress; transactions restart at 1.")
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
    """Show the progress of transactional topologies, by transactional id.

    The command reads ZooKeeper (transactional.zookeeper.servers, else zookeeper.servers; below
    transactional.zookeeper.root), even if no topology runs. If a topology sets these keys itself, repeat them with -c.

    COMMITTED is the last committed transaction, COMMITTING the transaction whose commit has possibly begun, BEGUN the
    last transaction with a defined batch. EPOCH is the number of coordinators so far: it grows with each restart of the
    worker that runs the coordinator, and with each topology that takes over.

    \b
    Examples:
      tupletree transactions
      tupletree transactions global-count --json
      tupletree transactions -c zookeeper.port=3181    of a cluster whose ZooKeeper has that port
      tupletree transactions global-count --forget     kill the topology first, and empty its tables
    """
    from tupletree.config import load

    if is_forgotten and not transactional_ids_:
        raise UsageError("--forget requires a transactional id")
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
