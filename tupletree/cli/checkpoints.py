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
    """The stored checkpoint of a state id."""

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

    The command reads ZooKeeper (transactional.zookeeper.servers, else zookeeper.servers; below
    transactional.zookeeper.root), even if no topology runs. If a topology sets these keys itself, repeat them with -c.

    TXID is the checkpoint's number and PHASE its phase: preparing, committing or committed. TASKS counts the tasks with
    a state in the checkpoint. EPOCH is the number of checkpoint spouts so far: it grows with each restart of the worker
    that runs the spout, and with each topology that takes over. 'tupletree describe' shows the current activity.

    To start with empty states, submit with another topology.state.id.

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
