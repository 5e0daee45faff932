"""``tupletree version``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click

from tupletree._compiled import CHOICE
from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.errors import TupletreeError

if TYPE_CHECKING:
    from tupletree.client import ClusterDescription

_PACKAGES = ("tupletree", "grpcio", "protobuf", "kazoo", "pyspark")


@click.command("version")
@click.option("--client", "client_only", is_flag=True, help="Do not query the cluster.")
@nimbus_option
@json_option
@conf_options
def command(
    seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], client_only: bool, as_json: bool
) -> None:
    """Print the versions of Tupletree, of the cluster's daemons, of Python, and of the main libraries.

    Exit status 0, even without a cluster.
    """
    versions = {"python": platform.python_version(), **{package: _installed(package) for package in _PACKAGES}}
    cluster = None if client_only else _cluster(seeds, conf_path, overrides)
    if as_json:
        print_json({**versions, "hot_path": CHOICE, "cluster": cluster})
        return
    click.echo(f"tupletree {versions['tupletree']}, hot path: {CHOICE}")
    click.echo(", ".join(f"{name} {number}" for name, number in versions.items() if name != "tupletree"))
    if cluster is not None:
        click.echo(cluster_sentence(cluster, versions["tupletree"]))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


_PLURALS = {"nimbus": "nimbuses", "supervisor": "supervisors", "acker": "ackers"}


def _cluster(seeds: str | None, conf_path: str | None, overrides: tuple[str, ...]) -> dict[str, Any]:
    try:
        with connect(seeds, conf_path, overrides, leader_timeout_s=1.0) as client:
            return cluster_versions(client.cluster())
    except TupletreeError as error:
        return {"error": str(error)}


def cluster_versions(reply: ClusterDescription) -> dict[str, Any]:
    """Return the leader's version, and the number of daemons of each role and version."""
    daemons: dict[str, dict[str, int]] = {}
    found = {
        "nimbus": [one.presence for one in reply.nimbuses],
        "supervisor": [one.presence for one in reply.supervisors],
        "acker": [one.presence for one in reply.ackers],
    }
    for role, presences in found.items():
        for presence in presences:
            counts = daemons.setdefault(role, {})
            counts[presence.version] = counts.get(presence.version, 0) + 1
    return {"version": reply.version, "daemons": daemons}


def cluster_sentence(cluster: dict[str, Any], mine: str) -> str:
    """Return the daemons' versions in words; ``mine`` is the version here."""
    if "error" in cluster:
        return f"no cluster: {cluster['error']}"
    parts = [
        f"{number} {role if number == 1 else _PLURALS[role]} {version}"
        for role, counts in cluster["daemons"].items()
        for version, number in sorted(counts.items())
    ]
    differs = any(version != mine for counts in cluster["daemons"].values() for version in counts)
    return f"cluster: {', '.join(parts)}" + ("; versions differ from the local version" if differs else "")
