"""``tupletree state NAME`` and ``tupletree state NAME COMPONENT``: keys, bytes and skew of states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import conf_options, json_option, nimbus_option
from tupletree.cli.output import count, print_json, print_table
from tupletree.cli.statuses import printable

if TYPE_CHECKING:
    from tupletree.client import ComponentStates, StateSize

_MAX_REASON: Final = 120
_MAX_KEY: Final = 60


@click.command("sizes")
@json_option
@nimbus_option
@conf_options
@click.pass_obj
def sizes_command(
    place: tuple[str, str],
    /,
    as_json: bool,
    seeds: str | None,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Show keys, bytes and skew: of each component with a state, or of the tasks of one.

    'tupletree state NAME' and 'tupletree state NAME COMPONENT' are short for it. Keys and bytes are of the last
    checkpoint. The workers count them; of a large state they count a part and estimate the rest, shown as 'about' or
    'at least'. The skew is the largest task over the mean: 1.0 if all tasks have the same.
    """
    from tupletree.client import StateClient
    from tupletree.config import load

    name, component = place
    with StateClient(seeds, load(conf_path, overrides)) as states:
        found = states.sizes(name, component)
    if as_json:
        print_json({"name": name, "components": list(map(_component_dict, found))})
    elif not found:
        click.echo("no component has a state")
    elif component:
        _print_tasks(found)
    else:
        _print_components(found)


def _print_components(found: list[ComponentStates]) -> None:
    rows = []
    for one in found:
        spread, failed = one.spread, sum(task.size is None for task in one.tasks)
        tasks = f"{len(one.tasks)}, {failed} unknown" if failed else str(len(one.tasks))
        rows.append(
            (one.component, one.provider, tasks, *_sizes(spread.total), _skew(spread.key_skew), _skew(spread.byte_skew))
        )
    print_table(["component", "provider", "tasks>", "keys>", "bytes>", "key skew>", "byte skew>"], rows)
    _print_failures(found)


def _print_tasks(found: list[ComponentStates]) -> None:
    for one in found:
        spread = one.spread
        rows = [
            (
                task.task,
                *_sizes(task.size),
                _share(task.size, spread.total),
                "-" if task.committed is None else task.committed,
            )
            for task in one.tasks
        ]
        print_table(["task>", "keys>", "bytes>", "share of keys>", "checkpoint>"], rows)
        keys, size = _sizes(spread.total)
        click.echo(
            f"{keys} keys and {size} bytes with provider {one.provider or 'unknown'}; skew "
            f"{_skew(spread.key_skew)} by keys, {_skew(spread.byte_skew)} by bytes"
        )
        if one.largest:
            print_table(
                ["largest entries", "bytes>", "task>"],
                [(_key(entry.key), count(entry.size), task) for task, entry in one.largest],
            )
        if one.write_refusal:
            click.echo(f"read only: {one.write_refusal}")
    _print_failures(found)


def _print_failures(found: list[ComponentStates]) -> None:
    for one in found:
        failed = [task for task in one.tasks if task.size is None]
        if failed:
            indexes = ", ".join(str(task.task) for task in failed[:10])
            more = f" and {len(failed) - 10} more" if len(failed) > 10 else ""
            click.echo(f"{one.component}, task {indexes}{more}: {printable(failed[0].failure, _MAX_REASON)}", err=True)


def _sizes(size: StateSize | None) -> tuple[str, str]:
    if size is None:
        return "-", "-"
    prefix = "" if size.precision.value == "exact" else f"{size.precision.value} "
    return prefix + count(size.keys), prefix + count(size.bytes)


def _form(encoded: bytes) -> Any:
    from tupletree._wire.plain_form import shown_form

    return shown_form(encoded)


def _key(encoded: bytes) -> str:
    form = _form(encoded)
    return printable(form if isinstance(form, str) else json.dumps(form, ensure_ascii=False), _MAX_KEY)


def _skew(skew: float | None) -> str:
    return "-" if skew is None else f"{skew:.2f}"


def _share(size: StateSize | None, total: StateSize) -> str:
    from tupletree.state.sizes import share_of

    share = None if size is None else share_of(size.keys, total.keys)
    return "-" if share is None else f"{100 * share:.1f}%"


def _component_dict(one: ComponentStates) -> dict[str, Any]:
    spread = one.spread
    return {
        "component": one.component,
        "provider": one.provider,
        **_size_dict(spread.total),
        "key_skew": spread.key_skew,
        "byte_skew": spread.byte_skew,
        "write_refusal": one.write_refusal,
        "largest": [{"index": task, "key": _form(entry.key), "bytes": entry.size} for task, entry in one.largest],
        "tasks": [
            {
                "index": task.task,
                **_size_dict(task.size),
                "committed_txid": task.committed,
                "age_secs": task.age_secs,
                "failure": task.failure,
            }
            for task in one.tasks
        ],
    }


def _size_dict(size: StateSize | None) -> dict[str, Any]:
    if size is None:
        return {"keys": None, "bytes": None, "precision": None}
    return {"keys": size.keys, "bytes": size.bytes, "precision": size.precision.value}
