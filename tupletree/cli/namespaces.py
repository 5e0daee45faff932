"""``tupletree trees``."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import count, duration, message_dict, print_json, print_table
from tupletree.errors import TupletreeError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient

_SUMS: Final = ("clients", "open_trees", "begun", "done", "failed", "timed_out", "refused")
_QUOTAS: Final = ("max_open_trees", "max_updates_per_s", "timeout_s")


@click.command("trees")
@json_option
@client_options
def command(client: NimbusClient, as_json: bool) -> None:
    """Show the namespaces of trees (acker.trees.namespaces), with their open trees and their quotas.

    CLIENTS, OPEN and the counters are sums over all ackers that answer; MAX OPEN and UPDATES/S are the quotas at each
    acker. The counters begin with the acker. A tree that its client ends at its timeout counts as failed; TIMED OUT
    counts the trees whose client has vanished.

    Exit status 0 even if there are none, or an acker does not answer, which is said on standard error.

    \b
    Examples:
      tupletree trees
      tupletree trees --json
    """
    namespaces, silent = namespace_dicts(client)
    for reason in silent:
        click.echo(reason, err=True)
    if as_json:
        print_json(namespaces)
    elif not namespaces:
        click.echo("no namespaces of trees: add one to acker.trees.namespaces")
    else:
        _print(namespaces)


def namespace_dicts(client: NimbusClient) -> tuple[list[dict[str, Any]], list[str]]:
    """Return each namespace with what its ackers tell, and a sentence for each acker that does not answer."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    silent: list[str] = []
    addresses = sorted(acker.presence.address for acker in client.cluster().ackers)

    def told(address: str) -> list[dict[str, Any]] | str:
        try:
            namespaces = client.ledger(address).namespaces
        except TupletreeError as error:
            return str(error)
        return [{"acker": address, **message_dict(one.raw)} for one in namespaces]

    with ThreadPoolExecutor(max_workers=16) as pool:
        for answer in pool.map(told, addresses):
            if isinstance(answer, str):
                silent.append(answer)
                continue
            for one in answer:
                found[one.pop("name")].append(one)
    return [
        {"name": name, **{key: sum(one[key] for one in ackers) for key in _SUMS}, "ackers": ackers}
        for name, ackers in sorted(found.items())
    ], silent


def _print(namespaces: list[dict[str, Any]]) -> None:
    headings = ["namespace", "ackers>", "clients>", "open>", "max open>", "updates/s>", "timeout>"]
    rows = [
        (
            one["name"],
            len(one["ackers"]),
            count(one["clients"]),
            count(one["open_trees"]),
            *(_quota(one, key) for key in _QUOTAS),
            *(count(one[key]) for key in _SUMS[2:]),
        )
        for one in namespaces
    ]
    print_table([*headings, "begun>", "done>", "failed>", "timed out>", "refused>"], rows)


def _quota(namespace: dict[str, Any], key: str) -> str:
    """Return a quota at each acker: a range if they differ."""
    values = sorted({acker[key] for acker in namespace["ackers"]})
    shown = [duration(value) if key == "timeout_s" and value >= 1 else f"{value:,g}" for value in values]
    return shown[0] if len(shown) == 1 else f"{shown[0]}-{shown[-1]}"
