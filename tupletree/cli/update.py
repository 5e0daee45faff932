"""``tupletree update`` and ``tupletree rollback``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import (
    client_options,
    conf_options,
    connect,
    json_option,
    name_argument,
    nimbus_option,
    wait_option,
)
from tupletree.cli.output import message_dict, print_json
from tupletree.cli.submit import client_overrides, file_options, told, topology_conf, upload_progress
from tupletree.errors import NotFoundError, UnavailableError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologyRecord, TopologyUpdate

_POLL_S: Final = 0.3

follow_option = click.option(
    "--follow/--no-follow", default=True, help="Wait until all new workers have started; that is the default."
)


@click.command("update")
@name_argument
@file_options
@wait_option
@click.option(
    "--drop-state",
    "drop_states",
    multiple=True,
    metavar="COMPONENT",
    help="Leave out this component although its state is discarded then; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@follow_option
@nimbus_option
@json_option
@conf_options
def update(
    name: str,
    file: str,
    code: tuple[str, ...],
    requirements: str | None,
    filter_file: str | None,
    env_filter: bool,
    wait_s: float | None,
    drop_states: tuple[str, ...],
    dry_run: bool,
    follow: bool,
    seeds: str | None,
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Let a running topology go on with other code. Its states and positions stay.

    FILE, --include, --requirements, --filter and -c are those of 'tupletree submit'. Spouts pause until no tuple is in
    flight, at most for the wait; then new workers take the place of the old ones. If one of them cannot start, the
    topology goes back to what ran before, and the command fails with the reason.

    Components may be added, removed and changed. What 'rebalance' and 'config set' have changed stays, unless the
    update changes it itself. An update that could not go on with the stored states, or would discard one, is refused.

    \b
    Examples:
      tupletree update words word_count.py --dry-run
      tupletree update words word_count.py:make -c topology.max.spout.pending=500 --wait 10
    """
    from tupletree.cli.topology_file import load_topology

    topology, brought, _ = load_topology(file, filter_file, env_filter)
    conf = topology_conf(brought, conf_path, overrides)
    with connect(seeds, conf_path, client_overrides(overrides)) as client:
        began_s = time.monotonic()
        with told(), upload_progress() as progress:
            asked: dict[str, Any] = {"wait_secs": wait_s, "drop_states": drop_states, "only_check": dry_run}
            answer = client.update(name, topology, conf, code, requirements=requirements, progress=progress, **asked)
        if not as_json:
            click.echo(_shown(answer, dry_run))
        _end(client, answer, follow and not dry_run, began_s, as_json)


@click.command("rollback")
@name_argument
@wait_option
@follow_option
@json_option
@client_options
def rollback(client: NimbusClient, name: str, wait_s: float | None, follow: bool, as_json: bool) -> None:
    """Let a topology go back to what ran before its last update. Its states and positions stay.

    The configuration and the numbers of workers, executors and tasks go back too. A second rollback undoes the first.
    An update that still waits for tuples in flight is withdrawn.

    \b
    Example:
      tupletree rollback words
    """
    began_s = time.monotonic()
    record = client.rollback(name, wait_s)
    number = record.version
    if record.pending is not None and record.pending.update is not None:
        number = record.pending.update.number
    else:
        follow = False  # the update was withdrawn
    if follow:
        _print_end(_follow(client, record, number), time.monotonic() - began_s, as_json)
    elif as_json:
        print_json({"name": name, "version": number})
    else:
        click.echo(f"{name} goes {'back to' if record.pending is not None else 'on with'} version {number}")


def _end(client: NimbusClient, answer: TopologyUpdate, follow: bool, began_s: float, as_json: bool) -> None:
    pending = answer.record.pending
    if follow and pending is not None and pending.update is not None:
        record = _follow(client, answer.record, pending.update.number)
        _print_end(record, time.monotonic() - began_s, as_json)
    elif as_json:
        print_json({key: value for key, value in message_dict(answer.raw).items() if key != "record"})


def _follow(client: NimbusClient, asked: TopologyRecord, number: int) -> TopologyRecord:
    """Wait until a topology runs a version. Raises UnavailableError if it does not come to that."""
    while True:
        time.sleep(_POLL_S)
        found = next((one for one in client.list() if one.record.id == asked.id), None)
        if found is None or found.record.status == "KILLED":
            raise NotFoundError(f"topology '{asked.name}' was killed during the update")
        record = found.record
        is_pending = record.pending is not None and record.pending.update is not None
        is_ready = 0 < found.workers_used == found.workers_ready
        if is_pending or record.trial_began_unix_s or not is_ready:
            continue
        if record.version == number:
            return record
        errors = client.describe(asked.name).errors
        why = (one.message for one in errors if one.message.startswith(f"version {number} is taken back"))
        raise UnavailableError(next(why, f"version {number} is taken back") + f"; {asked.name} goes on as before")


def _print_end(record: TopologyRecord, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json({"name": record.name, "id": record.id, "version": record.version, "seconds": round(seconds, 3)})
    else:
        click.echo(f"{record.name} runs version {record.version}, after {seconds:.1f} s")


def _shown(answer: TopologyUpdate, dry_run: bool) -> str:
    """Return the changes of an update as lines."""
    record, pending = answer.record, answer.record.pending
    lines = [f"component {one} is new" for one in answer.added]
    lines += [f"component {one} ends" for one in answer.removed]
    if pending is not None and pending.update is not None:
        then = pending.update
        lines += ["its code changes"] if then.bundle_sha256 != record.bundle_sha256 else []
        lines += [f"workers: {then.workers} instead of {record.workers}"] if then.workers != record.workers else []
        lines += [
            f"component {one} has {count} tasks instead of {record.tasks[one]}"
            for one, count in sorted(then.tasks.items())
            if record.tasks.get(one, count) != count
        ]
        lines.insert(0, f"{record.name} {'would be' if dry_run else 'is'} updated to version {then.number}")
    else:
        lines.insert(0, f"{record.name} runs this already: nothing changes")
    lines += [
        f"values of {one} are migrated with the first checkpoint, from which on there is no way back"
        for one in answer.migrated
    ]
    if answer.conf_keys:
        lines.append(f"configuration that changes: {', '.join(answer.conf_keys)}")
    return "\n  ".join(lines)
