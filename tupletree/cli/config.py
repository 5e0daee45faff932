"""``tupletree config``: the keys, their meanings and their values."""

from __future__ import annotations

import json
from typing import Any

import click

from tupletree.cli.config_topology import print_settings, set_command, unset_command
from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json, print_table
from tupletree.config import KEYS, Key, defaults, json_schema, load, load_explicit, render_schema, render_yaml, validate
from tupletree.config.changes import change_of


def _complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=key.doc) for name, key in KEYS.items() if name.startswith(incomplete)]


def _complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Complete a key; where none begins so, ask the cluster for the names of topologies."""
    from tupletree.cli.name_completion import complete_names

    return _complete_keys(ctx, param, incomplete) or list(complete_names(ctx, incomplete))


@click.group("config")
def command() -> None:
    """Explain configuration keys, show their values, and change those of running topologies.

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
@click.option("--flux", is_flag=True, help="Print that of topologies in YAML instead.")
@json_option
def print_schema(flux: bool, as_json: bool) -> None:
    """Print the JSON schema of tupletree.yaml, for editors; with --json, on one line.

    An editor with a YAML language server completes and checks the keys of a file that begins with the line
    `# yaml-language-server: $schema=tupletree.schema.json`.

    \b
    Examples:
      tupletree config schema > tupletree.schema.json
      tupletree config schema --flux > topology.schema.json
    """
    if flux:
        from tupletree.flux import flux_schema, render_flux_schema

        shown, render = flux_schema, render_flux_schema
    else:
        shown, render = json_schema, render_schema
    if as_json:
        print_json(shown())
    else:
        click.echo(render(), nl=False)


command.add_command(set_command)
command.add_command(unset_command)


@command.command("get")
@click.argument("words", metavar="[NAME] [KEY]", nargs=-1, required=True, shell_complete=_complete_words)
@click.option("--remote", is_flag=True, help="Print the value of the leading nimbus.")
@nimbus_option
@json_option
@conf_options
def get_key(
    words: tuple[str, ...],
    remote: bool,
    seeds: str | None,
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Print the value of KEY as JSON; with --json, with its unit, default and meaning.

    Default: the local value. With --remote, the value of the leading nimbus, which replaces secrets by stars.

    With NAME, print the value that holds in a running topology; without KEY, all its keys with their values, the source
    of each value (default, submission, or changed since), and how each key can be changed: live, with a restart of the
    workers, or not at all (fixed). Keys that components set come last. Secrets are replaced by stars.

    \b
    Examples:
      tupletree config get topology.message.timeout.secs
      tupletree config get nimbus.task.timeout.secs --remote
      tupletree config get words
      tupletree config get words topology.max.spout.pending --json
    """
    conf = load(conf_path, overrides)
    name, key = _name_and_key(words, conf)
    if name is not None:
        if remote:
            raise click.UsageError("--remote is for keys of the cluster; a topology's keys come from nimbus anyway.")
        with connect(seeds, conf_path, overrides) as client:
            print_settings(client, name, key, as_json)
        return
    assert key is not None
    if seeds is not None and not remote:
        raise click.UsageError("--nimbus requires --remote, or the name of a topology.")
    if remote:
        _print_remote(key, seeds, conf_path, overrides, as_json)
        return
    _print_local(key, conf, key in load_explicit(conf_path, overrides), as_json)


def _name_and_key(words: tuple[str, ...], conf: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the topology and the key that the arguments name. A single argument with a dot is a key."""
    if len(words) > 2:
        raise click.UsageError(f"'config get' takes the name of a topology and a key, not {len(words)} arguments.")
    if len(words) == 2:
        return words[0], words[1]
    is_key = words[0] in conf or "." in words[0]
    return (None, words[0]) if is_key else (words[0], None)


def _print_local(key: str, conf: dict[str, Any], is_set: bool, as_json: bool) -> None:
    known = KEYS.get(key)
    if known is None and key not in conf:
        validate({key: None})
        raise click.UsageError(f"there is no configuration key '{key}', and no value is set for it.")
    if not as_json:
        click.echo(json.dumps(conf[key]))
        return
    value = {"key": key, "value": conf[key]} if known is None else _as_dict(known, conf)
    print_json({**value, "set": is_set})


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
        "changes": change_of(key.name),
    }
