"""``tupletree state``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import (
    client_options,
    complete_components,
    conf_options,
    json_option,
    name_argument,
    nimbus_option,
)
from tupletree.cli.output import print_json, print_table
from tupletree.cli.state_sizes import sizes_command
from tupletree.cli.state_writes import delete_command, import_command, key_of_text, put_command
from tupletree.cli.statuses import printable
from tupletree.errors import NotFoundError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, StateAnswer, StateEntry

_MAX_CELL: Final = 100

Command = Callable[..., Any]


class _StateGroup(click.Group):
    """A group whose subcommand, and the component before it, may be left out: then sizes are shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = 0
        while named < min(len(args), 3) and not args[named].startswith("-"):
            named += 1
        if 1 <= named < 3 and not ctx.resilient_parsing:
            args = [*args[:named], *[""] * (2 - named), sizes_command.name or "", *args[named:]]
        return super().parse_args(ctx, args)


@click.group("state", cls=_StateGroup, no_args_is_help=False, subcommand_metavar="[COMMAND [ARGS]...]")
@name_argument
@click.argument("component", metavar="[COMPONENT]", shell_complete=complete_components)
@click.pass_context
def command(ctx: click.Context, name: str, component: str) -> None:
    """Show, export or change the values that the tasks of a stateful component keep, and show how much there is.

    Without a command, keys, bytes and skew are shown: of the tasks of COMPONENT, or without it of each component.

    The values are those of the last checkpoint, unless --live is given. The workers of the component answer, so the
    topology must run; --direct reads the store of the states instead, also when the topology is down or gone.
    Changes are made by the tasks themselves, between two batches of tuples, and are part of the next checkpoint.

    A key is a text. With --json-keys it is JSON: 5 is a number, "5" a text, ["a", 1] a tuple, {"$bytes": "AAE="}
    bytes in base64. TASK is the index of the task in its component: several tasks can have a key if its tuples are not
    grouped by it.

    \b
    Examples:
      tupletree state words                                 keys, bytes and skew by component
      tupletree state words count                           the same by task
      tupletree state words count get apple pear
      tupletree state words count get apple --live          uncommitted, as the bolt has it now
      tupletree state words join get --json-keys '["apple", 5]'
      tupletree state words count list --limit 20
      tupletree state words count export counts.parquet     all entries, of one checkpoint
      tupletree state words count put apple 5
      tupletree state words count delete pear plum
      tupletree state words count import counts.parquet
      tupletree state words count get apple --direct -c topology.state.provider=redis \\
          -c 'topology.state.provider.config={"url": "redis://127.0.0.1:6379/0"}'
    """
    ctx.obj = name, component


def _where_options(function: Command) -> Command:
    """Add ``--direct`` and the options of the cluster and of the configuration."""
    function = conf_options(function)
    function = nimbus_option(function)
    return click.option(
        "--direct",
        is_flag=True,
        help="Read the store from here: NAME is the topology.state.id (by default the topology's name), and the "
        "configuration names the provider.",
    )(function)


@command.command("get")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--live", is_flag=True, help="The values that the bolts have now, instead of the committed ones.")
@click.option("--json-keys", is_flag=True, help="Each KEY is JSON, for keys that are not texts.")
@json_option
@_where_options
@click.pass_obj
def get_command(
    place: tuple[str, str], /, keys: tuple[str, ...], live: bool, json_keys: bool, as_json: bool, **where: Any
) -> None:
    """Show the values of keys."""
    if live and where["direct"]:
        raise click.UsageError("--live asks the running tasks, and --direct the store: give one of them.")
    wanted = [key_of_text(key) if json_keys else key for key in keys]
    with _opened(place[0], **where) as states:
        answer = states.get(*place, *wanted, live=True) if live else states.get(*place, *wanted)
    found = {_hashable(one.key) for one in answer.entries}
    missing = [text for text, key in zip(keys, wanted, strict=True) if _hashable(key) not in found]
    if as_json:
        print_json(_answer_dict(place, answer, live) | {"missing": missing})
        return
    _print(answer, live)
    if missing:
        click.echo(f"no task has {', '.join(printable(one, _MAX_CELL) for one in missing)}", err=True)


@command.command("list")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum entries.")
@click.option("--after", default="", metavar="POSITION", help="Continue where another list ended.")
@json_option
@_where_options
@click.pass_obj
def list_command(place: tuple[str, str], /, limit: int, after: str, as_json: bool, **where: Any) -> None:
    """List committed keys and values, by task; numbers before texts, short texts before long ones."""
    with _opened(place[0], **where) as states:
        answer = states.scan(*place, after=after, limit=limit)
    if as_json:
        print_json(_answer_dict(place, answer, False))
        return
    _print(answer, False)
    if answer.next:
        click.echo(f"more: --after {answer.next}")


@command.command("export")
@click.argument("file", metavar="FILE.parquet|.csv|.jsonl")
@json_option
@client_options
@click.pass_obj
def export_command(place: tuple[str, str], /, client: NimbusClient, file: str, as_json: bool) -> None:
    """Write all committed keys and values to a file, of one checkpoint.

    No checkpoint begins while the state is read, so acks wait for a moment.
    """
    txid, count = client.export_state(*place, file)
    if as_json:
        print_json({"name": place[0], "component": place[1], "file": file, "checkpoint": txid, "entries": count})
        return
    click.echo(f"{count:,} entries of checkpoint {txid} are in {file}")


for one in (sizes_command, put_command, delete_command, import_command):
    command.add_command(one)


@contextmanager
def _opened(
    name: str, direct: bool, seeds: str | None, conf_path: str | None, overrides: tuple[str, ...]
) -> Iterator[Any]:
    """Yield what answers: a StateClient, or StoredStates with ``direct``."""
    from tupletree.client import StateClient, StoredStates
    from tupletree.config import load

    conf = load(conf_path, overrides)
    if direct:
        logging.disable(logging.CRITICAL)  # a failure is reported once, by the raised error
        try:
            yield StoredStates(conf)
        finally:
            logging.disable(logging.NOTSET)
        return
    with StateClient(seeds, conf) as client:
        try:
            yield client
        except NotFoundError as error:
            if "there is no topology" not in str(error):
                raise
            raise NotFoundError(f"{error}; --direct reads what a topology '{name}' left in its store") from None


def _hashable(key: Any) -> Any:
    return key if isinstance(key, str | bytes | int | tuple) else repr(key)


def _print(answer: StateAnswer, is_live: bool) -> None:
    if not answer.entries:
        click.echo("no entries")
        return
    rows = [(_cell(one.key, one.encoded_key), _value_cell(one), one.task) for one in answer.entries]
    print_table(["key", "live value" if is_live else "value", "task>"], rows)
    txids = sorted({txid for one in answer.entries if (txid := answer.committed[one.task]) is not None})
    if txids and not is_live:
        click.echo(f"committed with checkpoint {', '.join(map(str, txids))}")


def _cell(value: Any, encoded: bytes) -> str:
    if isinstance(value, str):
        return printable(value, _MAX_CELL)
    return printable(json.dumps(_plain(encoded), ensure_ascii=False), _MAX_CELL)


def _value_cell(one: StateEntry) -> str:
    return f"(left out: {one.size:,} bytes)" if one.is_left_out else _cell(one.value, one.encoded_value)


def _plain(encoded: bytes) -> Any:
    from tupletree._wire.plain_form import shown_form

    return shown_form(encoded)


def _answer_dict(place: Sequence[str], answer: StateAnswer, is_live: bool) -> dict[str, Any]:
    return {
        "name": place[0],
        "component": place[1],
        "live": is_live,
        "tasks": [{"index": index, "committed_txid": txid} for index, txid in sorted(answer.committed.items())],
        "entries": [
            {
                "task": one.task,
                "key": _plain(one.encoded_key),
                "value": None if one.is_left_out else _plain(one.encoded_value),
                "bytes": one.size,
                "left_out": one.is_left_out,
            }
            for one in answer.entries
        ],
        "next": answer.next or None,
    }
