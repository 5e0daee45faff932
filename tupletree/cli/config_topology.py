"""``tupletree config set``, ``unset`` and ``get`` of a running topology."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import message_dict, print_json, print_table
from tupletree.cli.record import waits_for
from tupletree.config import KEYS, faults
from tupletree.config.changes import change_of
from tupletree.config.effective import settings
from tupletree.config.loading import parse_assignments

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologyDescription, TopologyRecord


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Complete a key that a running topology can take; for ``KEY=VALUE``, with the equals sign."""
    from click.shell_completion import CompletionItem

    suffix = "=" if "=" in str(param.metavar) else ""
    return [
        CompletionItem(name + suffix, help=key.doc)
        for name, key in KEYS.items()
        if name.startswith(incomplete) and change_of(name) in ("live", "restart")
    ]


wait_option = click.option(
    "-w",
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum wait for tuples in flight before a restart; default: the topology's message timeout.",
)


@click.command("set")
@name_argument
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True, shell_complete=_complete)
@wait_option
@json_option
@client_options
def set_command(
    client: NimbusClient, name: str, assignments: tuple[str, ...], wait_s: float | None, as_json: bool
) -> None:
    """Change keys of a running topology's configuration.

    Running workers adopt a key that changes 'live' within a second or two. For a key that changes with a 'restart',
    spouts pause until no tuple is in flight, at most for the wait; the topology's workers are then restarted where they
    are. A 'fixed' key is refused. 'tupletree config get NAME' shows how each key changes.

    The new values hold for workers that start later, and until the topology ends. A component's own configuration still
    overrides them. VALUE is YAML.

    \b
    Examples:
      tupletree config set words topology.max.spout.pending=500
      tupletree config set words topology.message.timeout.secs=60 topology.state.checkpoint.interval.ms=5000 --wait 10
    """
    conf = parse_assignments(assignments)
    _print_record(client.set_conf(name, conf, wait_secs=wait_s), conf.keys(), as_json)


@click.command("unset")
@name_argument
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=_complete)
@wait_option
@json_option
@client_options
def unset_command(client: NimbusClient, name: str, keys: tuple[str, ...], wait_s: float | None, as_json: bool) -> None:
    """Give keys of a running topology's configuration the values of the submission again.

    The values change as with 'tupletree config set': live, or with a restart of the workers. A key that was not changed
    stays as it is.

    \b
    Example:
      tupletree config unset words topology.max.spout.pending
    """
    _print_record(client.set_conf(name, remove=keys, wait_secs=wait_s), keys, as_json)


def print_settings(client: NimbusClient, name: str, key: str | None, as_json: bool) -> None:
    """Print the configuration of a topology, or the value of one key."""
    found = settings_with_components(client.describe(name))
    if key is not None:
        _print_setting(found, name, key, as_json)
    elif as_json:
        print_json(found)
    else:
        rows = [(one["key"], _shown(one), one["source"], one["changes"]) for one in found]
        print_table(["key", "value", "source", "changes"], rows)
        own = [
            (component, one["key"], json.dumps(value))
            for one in found
            for component, value in one.get("components", {}).items()
        ]
        if own:
            print_table(["component", "own key", "value"], sorted(own))


def settings_with_components(description: TopologyDescription) -> list[dict[str, Any]]:
    """Return the keys of a topology, with the values of the components that set a key themselves."""
    found = settings_of(description.summary.record)
    for one in found:
        own = {part.id: part.conf[one["key"]] for part in description.spec.components if one["key"] in part.conf}
        if own:
            one["components"] = own
    return found


def settings_of(record: TopologyRecord) -> list[dict[str, Any]]:
    """Return the keys of a topology's configuration, with their values and where these come from."""
    pending = record.pending.conf if record.pending is not None else {}
    return settings(record.conf, record.submitted_conf, pending, record.workers)


def changed_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each key that was changed since the submission, or waits for a restart."""
    lines = []
    for one in found:
        if "pending" in one:
            lines.append(f"{one['key']} will be {json.dumps(one['pending'])} when the workers are restarted")
        elif "submitted" in one:
            lines.append(f"{one['key']} is {json.dumps(one['value'])}, {json.dumps(one['submitted'])} at submission")
    return lines


def _print_setting(found: Sequence[dict[str, Any]], name: str, key: str, as_json: bool) -> None:
    setting = next((one for one in found if one["key"] == key), None)
    if setting is None:
        for fault in faults({key: None}) if key not in KEYS else ():
            raise click.UsageError(fault)
        raise click.UsageError(f"topology '{name}' has no configuration key '{key}'.")
    if as_json:
        print_json(setting)
    else:
        click.echo(json.dumps(setting["value"]))


def _print_record(record: TopologyRecord, keys: Collection[str], as_json: bool) -> None:
    """Print the keys that a request has named, and what the topology waits for if they change with a restart."""
    found = [one for one in settings_of(record) if one["key"] in keys]
    if as_json:
        print_json({"name": record.name, "status": str(record.status), "settings": found})
        return
    for one in found:
        click.echo(_sentence(record, one))
    for key in sorted(set(keys) - {one["key"] for one in found}):
        click.echo(f"{key} is not set")
    pending = message_dict(record.pending.raw) if record.pending is not None else None
    if any("pending" in one for one in found) and (wait := waits_for(pending, time.time())):
        click.echo(f"{record.name} is {record.status}: {wait}")


def _sentence(record: TopologyRecord, setting: dict[str, Any]) -> str:
    key, value = setting["key"], json.dumps(setting["value"])
    if "pending" in setting:
        return f"{key} will be {json.dumps(setting['pending'])} when the workers are restarted"
    if key in record.live_keys:
        return f"{key} is {value}: running workers adopt it"
    return f"{key} is {value}" + ("" if "submitted" in setting else ", as at submission")


def _shown(setting: dict[str, Any]) -> str:
    value = json.dumps(setting["value"])
    if "pending" in setting:
        return f"{value}, soon {json.dumps(setting['pending'])}"
    return f"{value} (was {json.dumps(setting['submitted'])})" if "submitted" in setting else value
