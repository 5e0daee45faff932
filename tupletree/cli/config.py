"""``tupletree config``: the keys, their meanings and their values."""

from __future__ import annotations

import json
from typing import Any

import click

from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json, print_table
from tupletree.config import KEYS, Key, defaults, json_schema, load, load_explicit, render_schema, render_yaml, validate


def _complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=key.doc) for name, key in KEYS.items() if name.startswith(incomplete)]


@click.group("config")
def command() -> None:
    """Explain configuration keys and show their values.

    Sources of values, in rising precedence: the defaults, tupletree.yaml (given by --conf or $TUPLETREE_CONF, or found
    in this directory or in ~/.tupletree), environment variables such as TUPLETREE_NIMBUS_SEEDS, -c KEY=VALUE, the
    topology's configuration, and the component's configuration.
    """


@command.command("list")
@click.argument("prefix", default="")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print every key's default as a commented tupletree.yaml.")
@json_option
@conf_options
def list_keys(prefix: str, as_yaml: bool, as_json: bool, conf_path: str | None, overrides: tuple[str, ...]) -> None:
    """Show all keys, or those that start with PREFIX, with their values and meaning.

    \b
    Examples:
      tupletree config list nimbus.
      tupletree config list --yaml > tupletree.yaml
    """
    if as_yaml:
        click.echo(render_yaml(), nl=False)
        return
    conf = load(conf_path, overrides)
    keys = [key for name, key in KEYS.items() if name.startswith(prefix)]
    own = {name: conf[name] for name in conf if name not in KEYS and name.startswith(prefix)}
    if not keys and not own:
        raise click.UsageError(f"no configuration key starts with '{prefix}'.")
    if as_json:
        print_json([_as_dict(key, conf) for key in keys] + [{"key": name, "value": own[name]} for name in own])
        return
    rows = [(key.name, json.dumps(conf[key.name]), key.unit, key.doc) for key in keys]
    print_table(["key", "value", "unit", "meaning"], rows + [(name, json.dumps(own[name]), "", "") for name in own])


@command.command("schema")
@json_option
def print_schema(as_json: bool) -> None:
    """Print the JSON schema of tupletree.yaml, for editors; with --json, on one line.

    An editor with a YAML language server completes and checks the keys of a file that begins with the line
    `# yaml-language-server: $schema=tupletree.schema.json`.

    \b
    Example:
      tupletree config schema > tupletree.schema.json
    """
    if as_json:
        print_json(json_schema())
    else:
        click.echo(render_schema(), nl=False)


@command.command("get")
@click.argument("key", shell_complete=_complete_keys)
@click.option("--remote", is_flag=True, help="Print the value of the leading nimbus.")
@nimbus_option
@json_option
@conf_options
def get_key(
    key: str, remote: bool, seeds: str | None, as_json: bool, conf_path: str | None, overrides: tuple[str, ...]
) -> None:
    """Print the value of KEY as JSON; with --json, with its unit, default and meaning.

    Default: the local value. With --remote, the value of the leading nimbus, which replaces secrets by stars.

    \b
    Examples:
      tupletree config get topology.message.timeout.secs
      tupletree config get nimbus.task.timeout.secs --remote
    """
    if seeds is not None and not remote:
        raise click.UsageError("--nimbus requires --remote.")
    if remote:
        _print_remote(key, seeds, conf_path, overrides, as_json)
        return
    known = KEYS.get(key)
    conf = load(conf_path, overrides)
    if known is None and key not in conf:
        validate({key: None})
        raise click.UsageError(f"there is no configuration key '{key}', and no value is set for it.")
    if not as_json:
        click.echo(json.dumps(conf[key]))
        return
    value = {"key": key, "value": conf[key]} if known is None else _as_dict(known, conf)
    print_json({**value, "set": key in load_explicit(conf_path, overrides)})


def _print_remote(
    key: str, seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    with connect(seeds, conf_path, overrides) as client:
        conf = client.configuration()
    if key not in conf:
        validate({key: None})
        raise click.UsageError(f"the leading nimbus has no configuration key '{key}'.")
    if as_json:
        print_json({"key": key, "value": conf[key], "remote": True})
    else:
        click.echo(json.dumps(conf[key]))


def _as_dict(key: Key, conf: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": key.name,
        "value": conf[key.name],
        "default": defaults()[key.name],
        "unit": key.unit,
        "meaning": key.doc,
        "variable": key.variable,
        "component_level": key.component_level,
    }
