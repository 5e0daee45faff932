"""``tupletree version``."""

from __future__ import annotations

import platform
from importlib.metadata import version as installed

import click

from tupletree._compiled import CHOICE
from tupletree.cli.options import json_option
from tupletree.cli.output import print_json

_PACKAGES = ("tupletree", "grpcio", "protobuf", "kazoo", "pyspark")


@click.command("version")
@json_option
def command(as_json: bool) -> None:
    """Print the version of Tupletree, of Python and of the libraries that matter on the wire."""
    versions = {"python": platform.python_version(), **{package: installed(package) for package in _PACKAGES}}
    if as_json:
        print_json({**versions, "hot_path": CHOICE})
        return
    click.echo(f"tupletree {versions['tupletree']}, hot path: {CHOICE}")
    click.echo(", ".join(f"{name} {number}" for name, number in versions.items() if name != "tupletree"))
