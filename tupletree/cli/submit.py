"""``tupletree submit``."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json

if TYPE_CHECKING:
    from tupletree.client import Progress


F = TypeVar("F", bound=Callable[..., Any])

_CLIENT_KEYS: Final = frozenset(
    ("security.as.user", "security.token", "security.token.file", "tls.ca", "tls.cert", "tls.key")
)


def file_options(function: F) -> F:
    """Add what a topology is made from: FILE, --include and --requirements."""
    for option in (
        click.option("--requirements", metavar="FILE", help="A requirements.txt to install for the workers."),
        click.option(
            "--include",
            "code",
            multiple=True,
            metavar="PATH",
            help="Module file or package directory to add to the bundle; may be repeated.",
        ),
        click.argument("file", metavar="FILE[:CALLABLE]"),
    ):
        function = option(function)
    return filter_options(function)


def filter_options(function: F) -> F:
    """Add what the placeholders of a topology in YAML stand for."""
    for option in (
        click.option("--env-filter", is_flag=True, help="In YAML, ${ENV-HOME} stands for the variable HOME."),
        click.option(
            "--filter", "filter_file", metavar="FILE", help="Lines NAME = VALUE: in YAML, ${NAME} stands for VALUE."
        ),
    ):
        function = option(function)
    return function


@click.command("submit")
@file_options
@click.option("--name", help="Name of the topology; default: the file's name without .py, or that in the YAML.")
@click.option("--inactive", is_flag=True, help="Start with the spouts deactivated.")
@click.option(
    "--from-savepoint",
    metavar="DIR",
    help="Begin with the states and positions of a savepoint: a directory, or an address such as s3://bucket/folder.",
)
@click.option("--allow-lost-state", is_flag=True, help="Leave behind states of the savepoint that FILE does not have.")
@nimbus_option
@json_option
@conf_options
def command(
    file: str,
    name: str | None,
    code: tuple[str, ...],
    requirements: str | None,
    filter_file: str | None,
    env_filter: bool,
    inactive: bool,
    from_savepoint: str | None,
    allow_lost_state: bool,
    seeds: str | None,
    as_json: bool,
    conf_path: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Upload a topology to the cluster and start it.

    FILE is a Python module, or a topology in YAML (docs/guides/flux.md). CALLABLE (default: topology) takes no argument
    and returns a Topology, or a Topology and a dict of configuration keys. CALLABLE may also be the class of a
    pipeline. The file's keys override tupletree.yaml and the environment; -c overrides all.

    The bundle contains the classes in FILE and in modules beside it. Add data files, and modules imported only while a
    component runs, with --include.

    \b
    Examples:
      tupletree submit word_count.py
      tupletree submit word_count.py:make --name wc -c topology.workers=2 -c topology.max.spout.pending=1000
      tupletree submit app.py --include mypackage/ --requirements requirements.txt --inactive
      tupletree submit topology.yaml --filter production.properties
      tupletree submit word_count.py --from-savepoint words-12
    """
    from tupletree.cli.topology_file import load_topology

    topology, brought, stem = load_topology(file, filter_file, env_filter)
    conf = topology_conf(brought, conf_path, overrides)
    with connect(seeds, conf_path, client_overrides(overrides)) as client, told(), upload_progress() as progress:
        began: dict[str, Any] = {"from_savepoint": from_savepoint, "allow_lost_state": allow_lost_state}
        topology_id = client.submit(
            name or stem, topology, conf, code, requirements=requirements, inactive=inactive, progress=progress, **began
        )
    if as_json:
        print_json({"name": name or stem, "id": topology_id})
    else:
        click.echo(f"submitted {name or stem} as {topology_id}")


def topology_conf(brought: Mapping[str, Any], conf_path: str | None, overrides: tuple[str, ...]) -> dict[str, Any]:
    """A topology's configuration, in rising precedence: tupletree.yaml, the environment, the topology file, ``-c``.

    Contains only keys that are set explicitly: the cluster chooses the defaults.

    Raises:
        ConfigError: ``-c`` sets a key that belongs to the cluster and that its clients do not use either.
    """
    from tupletree.config import load_explicit, parse_overrides, topology_part
    from tupletree.errors import ConfigError

    given = parse_overrides(overrides)
    for key in given.keys() - topology_part(given).keys():
        if not _is_of_client(key):
            raise ConfigError(f"configuration key '{key}' belongs to the cluster; a topology cannot set it")
    return {**topology_part(load_explicit(conf_path)), **brought, **topology_part(given)}


def client_overrides(overrides: tuple[str, ...]) -> tuple[str, ...]:
    """The ``-c`` options that the client itself understands."""
    return tuple(override for override in overrides if _is_of_client(override.partition("=")[0].strip()))


def _is_of_client(key: str) -> bool:
    return key.startswith("nimbus.") or key in _CLIENT_KEYS


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Print the client's warnings on standard error, each on a line."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: click.echo(f"warning: {message}", err=True)
        yield


@contextlib.contextmanager
def upload_progress() -> Iterator[Progress | None]:
    """A progress bar on standard error; None if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    with Progress(
        TextColumn("uploading"), BarColumn(), DownloadColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("upload", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
