"""Options that several subcommands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tupletree.client import NimbusClient

Command = Callable[..., Any]

wait_option = click.option(
    "-w",
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum wait for tuples in flight; default: the topology's message timeout.",
)


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from tupletree.cli.name_completion import complete_names

    return list(complete_names(ctx, incomplete))


def complete_components(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Complete a component of the topology that stands before it; for ``COMPONENT=N``, with the equals sign."""
    from tupletree.cli import name_completion

    suffix = "=" if "=" in str(param.metavar) else ""
    return list(name_completion.complete_components(ctx, incomplete, suffix))


name_argument = click.argument("name", shell_complete=_complete_names)
names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete_names)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

nimbus_option = click.option(
    "--nimbus",
    "seeds",
    metavar="HOST[:PORT]",
    help="Addresses of nimbuses, separated by commas. Default: the key nimbus.seeds.",
)


def conf_options(command: Command) -> Command:
    """``--conf`` and ``-c``; the command gets ``conf_path`` and ``overrides``."""
    command = click.option(
        "-c",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a configuration key; may be repeated. See 'tupletree config list'.",
    )(command)
    return click.option(
        "--conf",
        "conf_path",
        metavar="FILE",
        help="Read this tupletree.yaml instead of the one found by default.",
    )(command)


def client_options(command: Command) -> Command:
    """Everything needed to reach the cluster; the command gets a ``client``, closed when it returns."""

    @nimbus_option
    @conf_options
    @functools.wraps(command)
    def connected(
        *args: Any, seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], **kwargs: Any
    ) -> Any:
        _refuse_topology_keys(overrides)
        with connect(seeds, conf_path, overrides) as client:
            return command(*args, client=client, **kwargs)

    return connected


def _refuse_topology_keys(overrides: tuple[str, ...]) -> None:
    """Refuse ``-c topology.…`` for a running topology."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.startswith("topology."):
            raise click.UsageError(
                f"-c configures this command, and '{key}' configures a topology. "
                f"Change a running topology with 'tupletree config set NAME {key}=VALUE'."
            )


def connect(
    seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], leader_timeout_s: float = 30.0
) -> NimbusClient:
    """A client for the options' cluster."""
    from tupletree.client import NimbusClient
    from tupletree.config import load

    return NimbusClient(seeds, load(conf_path, overrides), leader_timeout_s=leader_timeout_s)
