"""``tupletree dead-letters``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import click

from tupletree.cli.options import json_option
from tupletree.cli.output import clock, count, escaped, print_json, print_table
from tupletree.cli.statuses import printable
from tupletree.dead_letters import DeadLetterStore, Letter, open_store
from tupletree.errors import NotFoundError, ProtocolError, UsageError

_STORE = click.argument("store")
_NAME = click.option("--name", default="", help="Only letters of this topology.")
_IDS = click.argument("ids", metavar="[ID]...", nargs=-1)
_ALL = click.option("--all", "takes_all", is_flag=True, help="All letters, or with --name those of the topology.")


@click.group("dead-letters")
def command() -> None:
    """Show, replay and drop dead letters: messages that were given up, in a store that a DeadLetterBolt fills.

    STORE is sqlite:PATH or redis://HOST:PORT/DB. Instead of an ID, any unique prefix of the id will do.

    \b
    Examples:
      tupletree dead-letters list sqlite:letters.db --name orders
      tupletree dead-letters show sqlite:letters.db 5f3a
      tupletree dead-letters replay sqlite:letters.db --all     a DeadLetterSpout emits them
      tupletree dead-letters drop redis://127.0.0.1:6379/0 5f3a 77c0 --yes
    """


@command.command("list")
@_STORE
@_NAME
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum letters.")
@json_option
def list_command(store: str, name: str, limit: int, as_json: bool) -> None:
    """List letters, oldest first."""
    damaged: dict[str, ProtocolError] = {}
    opened = open_store(store)
    found = opened.letters(name, limit=limit, rows=False, damaged=damaged.__setitem__)
    _warn(damaged)
    if as_json:
        print_json([_dict(letter) for letter in found])
    elif not found:
        click.echo(_none(opened, store, name))
    else:
        print_table(
            ["id", "since", "topology", "message", "attempts>", "component", "error", ""],
            [
                (one.id[:8], clock(one.at_s), one.name, one.message, one.attempts, one.component,
                 _line(one.error), "replaying" if one.is_replayed else "")
                for one in found
            ],
        )  # fmt: skip


@command.command("show")
@_STORE
@click.argument("id")
@json_option
def show_command(store: str, id: str, as_json: bool) -> None:
    """Show one letter, with its row and traceback."""
    [letter] = _chosen(open_store(store), (id,), "", False).letters
    if as_json:
        print_json(_dict(letter))
        return
    for heading, text in (
        ("id", letter.id), ("topology", letter.name), ("since", clock(letter.at_s)), ("message", letter.message),
        ("row", f"{letter.values} on stream {letter.stream}"), ("attempts", letter.attempts),
        ("failed in", f"{letter.component}, task {letter.task}" if letter.component else "no component"),
        ("error", letter.error or "no reason was given"), ("replay", "requested" if letter.is_replayed else "no"),
    ):  # fmt: skip
        click.echo(f"{heading + ':':<10} {escaped(str(text))}")
    if letter.traceback:
        click.echo(f"\n{escaped(letter.traceback.rstrip().expandtabs())}")


@command.command("replay")
@_STORE
@_IDS
@_NAME
@_ALL
def replay_command(store: str, ids: tuple[str, ...], name: str, takes_all: bool) -> None:
    """Have letters emitted again by the DeadLetterSpout of their topology."""
    opened = open_store(store)
    letters = _chosen(opened, ids, name, takes_all).letters
    if not letters:
        click.echo(_none(opened, store, name))
        return
    opened.replay(letter.id for letter in letters)
    click.echo(f"{_number(letters)} will be emitted by a DeadLetterSpout of {_names(letters)}")


@command.command("drop")
@_STORE
@_IDS
@_NAME
@_ALL
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting.")
def drop_command(store: str, ids: tuple[str, ...], name: str, takes_all: bool, yes: bool) -> None:
    """Delete letters; also damaged entries, with --all unless there is a --name."""
    opened = open_store(store)
    found = _chosen(opened, ids, name, takes_all, with_damaged=True)
    damaged = [] if name and takes_all else list(found.damaged)
    number = _number(found.letters) + (f" and {_entries(damaged)}" if damaged else "")
    if (found.letters or damaged) and not yes:
        click.confirm(f"Delete {number} of {_names(found.letters)}?", abort=True)
    opened.remove([*(letter.id for letter in found.letters), *damaged])
    click.echo(f"{number} deleted")


class _Chosen(NamedTuple):
    letters: list[Letter]
    damaged: dict[str, ProtocolError]


def _chosen(
    store: DeadLetterStore, ids: tuple[str, ...], name: str, takes_all: bool, *, with_damaged: bool = False
) -> _Chosen:
    """Return the letters with these ids or unique prefixes of ids, or all letters; and damaged entries likewise.

    Raises NotFoundError for an id of none or several, and UsageError for a damaged entry, unless ``with_damaged``.
    """
    if takes_all == bool(ids):
        raise UsageError("give either the ids of letters or --all")
    damaged: dict[str, ProtocolError] = {}
    letters = store.letters(name, limit=1_000_000, rows=False, damaged=damaged.__setitem__)
    if takes_all:
        if not with_damaged:
            _warn(damaged)
        return _Chosen(letters, damaged)
    known = {letter.id: letter for letter in letters}
    chosen = _Chosen([], {})
    for id in ids:
        fitting = [one for one in (*known, *damaged) if one.startswith(id)]
        if len(fitting) != 1:
            what = "there is no letter" if not fitting else f"{len(fitting)} letters have an id that begins with"
            raise NotFoundError(f"{what} {id!r}; 'tupletree dead-letters list' shows the ids")
        [one] = fitting
        if one in known:
            chosen.letters.append(known[one])
        elif with_damaged:
            chosen.damaged[one] = damaged[one]
        else:
            raise UsageError(f"{damaged[one]}; 'tupletree dead-letters drop' deletes it")
    return chosen


def _warn(damaged: Mapping[str, ProtocolError]) -> None:
    if damaged:
        ids = printable(", ".join(one[:40] for one in damaged), 400)
        click.echo(f"{_entries(damaged)} skipped: {ids}; 'tupletree dead-letters drop' deletes them", err=True)


def _dict(letter: Letter) -> dict[str, object]:
    return {name: getattr(letter, name) for name in Letter.__dataclass_fields__ if name != "row"}


def _line(text: str) -> str:
    first = text.partition("\n")[0]
    return first if len(first) <= 60 else f"{first[:59]}…"


def _number(letters: list[Letter]) -> str:
    return f"{count(len(letters))} {'letter' if len(letters) == 1 else 'letters'}"


def _entries(damaged: Collection[str]) -> str:
    return f"{count(len(damaged))} damaged {'entry' if len(damaged) == 1 else 'entries'}"


def _none(opened: DeadLetterStore, store: str, name: str) -> str:
    """Return that there are no letters, and whether that is because there is no such store."""
    if opened.count() is None:
        return f"no dead letters: there is no {store}, or no DeadLetterBolt has written to it"
    return "no dead letters" + (f" of {name}" if name else "")


def _names(letters: list[Letter]) -> str:
    return ", ".join(sorted({letter.name for letter in letters})) or "no topology"
