"""``tupletree checkpoints``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tupletree._checkpoints.forgetting import forget, users_of
from tupletree._checkpoints.record import Checkpoint, load_checkpoint, state_ids
from tupletree._checkpoints.settings import check_state_id
from tupletree._wire.names import topology_name
from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json, print_table
from tupletree.cli.stores import opened_store
from tupletree.errors import UsageError


@dataclass(frozen=True, slots=True)
class Found:
    """The stored checkpoint of a state id."""

    id: str
    checkpoint: Checkpoint
    epoch: int
    owner: str


@click.command("checkpoints")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--forget", "is_forgotten", is_flag=True, help="Remove the stored checkpoint; nothing stored is no error."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before removing.")
@json_option
@conf_options
def command(
    ids: tuple[str, ...],
    is_forgotten: bool,
    yes: bool,
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Show the last checkpoint of stateful topologies, by state id: the topology's name, or its topology.state.id.

    The command reads ZooKeeper (transactional.zookeeper.servers, else zookeeper.servers; below
    transactional.zookeeper.root), even if no topology runs. If a topology sets these keys itself, repeat them with -c.

    TXID is the checkpoint's number and PHASE its phase: preparing, committing or committed. TASKS counts the tasks with
    a state in the checkpoint. EPOCH is the number of checkpoint spouts so far: it grows with each restart of the worker
    that runs the spout, and with each topology that takes over. 'tupletree describe' shows the current activity.

    To start with empty states, submit with another topology.state.id.

    --forget removes the stored checkpoint of an id that no topology will use again; it does nothing if nothing is
    stored. The id of a topology that still exists is refused. The states themselves stay where the state provider keeps
    them, and a topology with the same id does not start while they are there.

    \b
    Examples:
      tupletree checkpoints
      tupletree checkpoints words --json
      tupletree checkpoints words-of-last-year --forget
    """
    from tupletree.config import load

    conf = load(conf_path, overrides)
    if is_forgotten:
        if not ids:
            raise UsageError("--forget requires a state id")
        _forget(conf, tuple(dict.fromkeys(ids)), yes, as_json)
        return
    with opened_store(conf) as store:
        found = [Found(one, *load_checkpoint(store, one)) for one in dict.fromkeys(ids) or state_ids(store)]
    if as_json:
        print_json([_found_dict(one) for one in found])
    elif not found:
        root = str(conf["transactional.zookeeper.root"]).strip("/")
        click.echo(f"no stateful topology has run yet: ZooKeeper has no checkpoint below /{root}")
    else:
        rows = [
            (one.id, one.checkpoint.txid, one.checkpoint.phase.value, _tasks(one.checkpoint), one.epoch, one.owner)
            for one in found
        ]
        print_table(["id", "txid>", "phase", "tasks", "epoch>", "last checkpoint spout"], rows)


def _forget(conf: Mapping[str, Any], ids: Sequence[str], yes: bool, as_json: bool) -> None:
    for one in ids:
        check_state_id(one)
    _refuse_used(conf, ids)
    with opened_store(conf) as store:
        for one in [] if yes else sorted(set(ids) & set(state_ids(store))):
            click.confirm(f"Forget the stored checkpoint of '{one}'?", abort=True)
        removed = {one: forget(store, one) for one in ids}
    if as_json:
        print_json([{"id": one, "forgotten": was_stored} for one, was_stored in removed.items()])
        return
    for one, was_stored in removed.items():
        click.echo(f"{one}: the stored checkpoint is removed" if was_stored else f"{one}: no checkpoint is stored")


def _refuse_used(conf: Mapping[str, Any], ids: Sequence[str]) -> None:
    """Refuse the ids of topologies that exist in the cluster. Reads ZooKeeper: nimbus shows a user not all of them."""
    from tupletree._coord.session import connect, disconnect
    from tupletree._coord.store import Store

    client = connect(conf)
    try:
        found = Store(client, str(conf["zookeeper.root"])).topologies()
    finally:
        disconnect(client)
    records = [one.value for one in found.values()]
    for one in ids:
        names = users_of(one, records) + [name for name in map(topology_name, found.unreadable) if name == one]
        if names:
            raise UsageError(
                f"the checkpoint of state id '{one}' belongs to topology '{names[0]}', which still exists; kill the "
                f"topology first"
            )


def _tasks(checkpoint: Checkpoint) -> str:
    return ", ".join(f"{component}: {tasks}" for component, tasks in sorted(checkpoint.tasks.items()))


def _found_dict(found: Found) -> dict[str, Any]:
    checkpoint = found.checkpoint
    return {
        "id": found.id,
        "txid": checkpoint.txid,
        "phase": checkpoint.phase.value,
        "tasks": dict(checkpoint.tasks),
        "epoch": found.epoch,
        "owner": found.owner,
    }
