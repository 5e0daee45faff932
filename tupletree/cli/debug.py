"""``tupletree debug``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tupletree._wire.events import decode_event
from tupletree.cli.options import client_options, complete_components, json_option, name_argument
from tupletree.cli.output import print_json
from tupletree.cli.statuses import printable
from tupletree.cli.workers import Following, Source, check_component, end_of, sources
from tupletree.errors import TupletreeError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologyRecord

FILE = "events.jsonl"
_LATE_S = 3.0  # after the end of sampling, for sampled tuples that have not arrived yet


@click.command("debug")
@name_argument
@click.argument("component", required=False, shell_complete=complete_components)
@click.option(
    "-p",
    "--percent",
    type=click.FloatRange(0, 100, min_open=True),
    default=1.0,
    show_default=True,
    help="Percentage of tuples to sample.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=1, max=86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End after this time.",
)
@click.option("-n", "--count", "most", type=click.IntRange(min=1), help="End after N tuples.")
@click.option("--off", is_flag=True, help="Stop sampling, even if another user started it, and exit.")
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    component: str | None,
    percent: float,
    seconds: float,
    most: int | None,
    off: bool,
    as_json: bool,
) -> None:
    """Show a sample of the tuples that a component emits, live, with their values.

    Workers write sampled tuples into their events.jsonl, at most 500 per second per worker. This command reads that
    file. Without sampling there is no cost. Sampling ends with the command, at the latest after --for. Values are
    shown as their repr, cut to 200 characters. Without COMPONENT, tuples of all components are shown.

    Exit status 0; 2 if the topology or the component is not found.

    \b
    Examples:
      tupletree debug word_count split
      tupletree debug word_count split --percent 100 -n 5 --json
      tupletree debug word_count --off
    """
    if off:
        record = client.set_sampling(name, component or "", 0.0)
        _say_off(record, as_json)
        return
    reply = client.describe(name)
    check_component(reply, component)
    shown = 0
    with contextlib.suppress(KeyboardInterrupt):
        for event in _sampled(client, name, component, percent, seconds):
            _show(event, as_json)
            shown += event["kind"] == "tuple"
            if most is not None and shown >= most:
                return
        if not shown and not as_json:
            click.echo(f"no tuple was sampled in {seconds:g} s", err=True)


def _sampled(
    client: NimbusClient, name: str, component: str | None, percent: float, seconds: float
) -> Iterator[dict[str, Any]]:
    """Sample for ``seconds``, or until the caller closes the iterator; yield the events as they arrive."""

    def select() -> list[Source]:
        return sources(client, name, component=component)

    positions = {source: end_of(client, source, FILE) for source in select()}
    record = client.describe(name).summary.record
    before = record.sampled_percent.get(component or "", 0.0)
    before_until_s = record.sampled_until_unix_s.get(component or "", 0.0)  # of another user's command
    client.set_sampling(name, component or "", percent, time.time() + seconds)
    following = Following(client, name, FILE, positions, select)
    deadline_s = time.monotonic() + seconds + _LATE_S
    try:
        for arrived in following.lines():
            event = decode_event(arrived[1]) if arrived is not None else None
            if event is not None and _is_wanted(event, component):
                yield event
            if time.monotonic() >= deadline_s:
                return
    finally:
        following.close()
        is_over = 0 < before_until_s <= time.time()
        with contextlib.suppress(TupletreeError):  # sampling expires by itself
            client.set_sampling(name, component or "", 0.0 if is_over else before, 0.0 if is_over else before_until_s)


def _is_wanted(event: dict[str, Any], component: str | None) -> bool:
    is_tuple = event["kind"] == "tuple" and component in (None, event.get("component"))
    return is_tuple or event["kind"] == "left_out"


def _show(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(event)
    elif event["kind"] == "left_out":
        click.echo(f"… {event.get('count')} more were dropped on {event.get('worker')}", err=True)
    else:
        values = event.get("values")
        targets = event.get("targets")
        shown = ", ".join(printable(str(value), 200) for value in values) if isinstance(values, list) else "?"
        to = ", ".join(map(str, targets)) if isinstance(targets, list) and targets else "-"
        at = datetime.fromtimestamp(event["at"]).astimezone().isoformat(timespec="milliseconds")[11:23]
        place = f"{event.get('component')}[{event.get('task')}] {event.get('stream')} -> {to}"
        click.echo(f"{at}  {printable(place)}  ({shown})")
    sys.stdout.flush()


def _say_off(record: TopologyRecord, as_json: bool) -> None:
    if as_json:
        print_json({"name": record.name, "sampled_percent": dict(record.sampled_percent)})
    else:
        left = ", ".join(f"{key or 'all'} {value:g}%" for key, value in record.sampled_percent.items())
        click.echo(f"sampled tuples of '{record.name}': {left or 'none'}")
