"""``tupletree state NAME COMPONENT put``, ``delete`` and ``import``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import conf_options, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.cli.statuses import printable
from tupletree.errors import UsageError

if TYPE_CHECKING:
    from tupletree.client import StateClient, StateWrite

_MAX_CELL: Final = 100
_PROGRESS_S: Final = 2.0

Command = Callable[..., Any]

_json_keys_option = click.option("--json-keys", is_flag=True, help="Each KEY is JSON, for keys that are not texts.")
_task_option = click.option(
    "--task",
    type=click.IntRange(min=0),
    metavar="INDEX",
    help="The task, where the fields grouping does not say which task has the key.",
)
_wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, min_open=True, max=600),
    default=60.0,
    show_default=True,
    help="The longest wait for a checkpoint, in seconds.",
)


def _options(command: Command) -> Command:
    """Add what all three have: ``--wait``, ``--json`` and the options of the cluster."""
    return _wait_option(json_option(nimbus_option(conf_options(command))))


@click.command("put", context_settings={"ignore_unknown_options": True})  # -5 is a value
@click.argument("key")
@click.argument("value")
@click.option("--if", "expected", metavar="VALUE", help="Only if the live value is this one, as JSON.")
@_json_keys_option
@_task_option
@_options
@click.pass_obj
def put_command(
    place: tuple[str, str],
    /,
    key: str,
    value: str,
    expected: str | None,
    json_keys: bool,
    task: int | None,
    wait_s: float,
    as_json: bool,
    **where: Any,
) -> None:
    """Set the value of a key, as the bolt would. VALUE is JSON: 5, '"a text"', '{"count": 5}'.

    The command ends when a checkpoint has the change. Tuples that come afterwards change this value. To correct a
    value that tuples change all the time, read it with 'get --live' and give it to --if: nothing is overwritten then.
    """
    wanted = key_of_text(key) if json_keys else key
    checked = {} if expected is None else {"expected": _value_of_text(expected)}
    new = _value_of_text(value)
    with _connected(**where) as states:
        done = states.put(*place, wanted, new, task=task, wait_secs=wait_s, **checked)
    if as_json:
        print_json(_write_dict(place, done))
        return
    tasks = ", ".join(map(str, sorted(done.put_in)))
    click.echo(f"put {printable(key, _MAX_CELL)} in task {tasks}, committed with checkpoint {_txids(done)}")


@click.command("delete")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@_json_keys_option
@_task_option
@_options
@click.pass_obj
def delete_command(
    place: tuple[str, str],
    /,
    keys: tuple[str, ...],
    json_keys: bool,
    task: int | None,
    wait_s: float,
    as_json: bool,
    **where: Any,
) -> None:
    """Delete keys, in every task that has one of them. The command ends when a checkpoint has the change."""
    wanted = [key_of_text(key) if json_keys else key for key in keys]
    with _connected(**where) as states:
        done = states.delete(*place, *wanted, task=task, wait_secs=wait_s)
    if as_json:
        print_json(_write_dict(place, done))
        return
    click.echo(f"{_counted(done.deleted, 'key')} deleted, committed with checkpoint {_txids(done)}")


@click.command("import")
@click.argument("file", metavar="FILE.parquet|.csv|.jsonl")
@click.option("--replace", is_flag=True, help="Delete the keys that are not in the file, afterwards.")
@click.option("--by-task", is_flag=True, help="Each entry goes to the task that the file names.")
@_options
@click.pass_obj
def import_command(
    place: tuple[str, str],
    /,
    file: str,
    replace: bool,
    by_task: bool,
    wait_s: float,
    as_json: bool,
    **where: Any,
) -> None:
    """Set all keys of a file that 'state export' has written, or a program like it.

    Other keys stay as they are, unless --replace is given. Some ten thousand entries are committed at a time: if the
    command is interrupted, import the file again.
    """
    with _connected(**where) as states:
        done = states.import_(
            *place, file, replace=replace, by_task=by_task, wait_secs=wait_s, on_progress=_progress(time.monotonic)
        )
    if as_json:
        print_json(_write_dict(place, done) | {"file": file})
        return
    dropped = f", {_counted(done.deleted, 'other key')} deleted" if replace else ""
    click.echo(f"{_counted(done.put, 'entry', 'entries')} of {file} put{dropped}")


def key_of_text(text: str) -> Any:
    """Return the key that JSON stands for. Raises UsageError."""
    from tupletree._wire.plain_form import key_of

    try:
        return key_of(json.loads(text))
    except (ValueError, RecursionError):
        raise UsageError(
            f"with --json-keys a key is JSON, and {text[:100]!r} is not: a text has quotes in it"
        ) from None


def _value_of_text(text: str) -> Any:
    from tupletree._wire.plain_values import value_of

    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"a value is JSON, and {text[:100]!r} is not: a text has quotes in it") from None
    return value_of(form)


def _connected(seeds: str | None, conf_path: str | None, overrides: tuple[str, ...]) -> StateClient:
    from tupletree.client import StateClient
    from tupletree.config import load

    return StateClient(seeds, load(conf_path, overrides))


def _progress(clock: Callable[[], float]) -> Callable[[int], None]:
    """Return what tells of progress on standard error, every few seconds."""
    told_s = clock()

    def tell(committed: int) -> None:
        nonlocal told_s
        if clock() - told_s >= _PROGRESS_S:
            told_s = clock()
            click.echo(f"{committed:,} entries are committed", err=True)

    return tell


def _txids(done: StateWrite) -> str:
    return ", ".join(map(str, sorted(set(done.committed.values()))))


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _write_dict(place: tuple[str, str], done: StateWrite) -> dict[str, Any]:
    return {
        "name": place[0],
        "component": place[1],
        "put": done.put,
        "deleted": done.deleted,
        "tasks": [{"index": index, "committed_txid": txid} for index, txid in sorted(done.committed.items())],
    }
