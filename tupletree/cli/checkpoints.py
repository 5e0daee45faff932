"""``tupletree checkpoints``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from tupletree._checkpoints.record import Checkpoint, load_checkpoint, state_ids
from tupletree.cli.options import conf_options, json_option
from tupletree.cli.output import print_json, print_table
from tupletree.cli.stores import opened_store


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored for a state id."""

    id: str
    checkpoint: Checkpoint
    epoch: int
    owner: str


@click.command("checkpoints")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@json_option
@conf_options
def command(ids: tuple[str, ...], as_json: bool, conf_path: str | None, overrides: tuple[str, ...]) -> None:
    """Show the last checkpoint of stateful topologies, by state id: the topology's name, or its topology.state.id.

    It is read from ZooKeeper (transactional.zookeeper.servers, else zookeeper.servers; below
    transactional.zookeeper.root), also when no topology runs. If a topology sets these keys itself, name them with -c.

    TXID is the checkpoint and PHASE how far it is: preparing, committing or committed. TASKS are those whose states
    belong to it. EPOCH counts the checkpoint spouts there were: it grows with each restart of a worker that runs one,
    and with each topology that takes over. What is being done just now is shown by 'tupletree describe'.

    To begin anew with empty states, submit with another topology.state.id.

    \b
    Examples:
      tupletree checkpoints
      tupletree checkpoints words --json
    """
    from tupletree.config import load

    conf = load(conf_path, overrides)
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
