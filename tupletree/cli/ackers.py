"""``tupletree ackers``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import count, duration, message_dict, print_json, print_table
from tupletree.errors import TupletreeError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient
    from tupletree.v1 import nimbus_pb2


@click.command("ackers")
@click.option("--topology", metavar="NAME", help="Only shards of this topology.")
@json_option
@client_options
def command(client: NimbusClient, topology: str | None, as_json: bool) -> None:
    """Show every acker service, and each ledger shard it serves as the acker itself reports it.

    PENDING is the tuple trees that are neither complete nor failed, OLDEST the age of the oldest of them. An acker is
    ready unless it drains, is over its limit, or cannot be reached.
    """
    topology_id = client.describe(topology).summary.record.id if topology is not None else None
    ackers = acker_dicts(client)
    if topology_id is not None:
        for acker in ackers:
            acker["shards"] = [shard for shard in acker["shards"] if shard["topology_id"] == topology_id]
    if as_json:
        print_json(ackers)
    elif not ackers:
        click.echo("no acker services")
    else:
        _print(ackers)


def acker_dicts(client: NimbusClient) -> list[dict[str, Any]]:
    """All registered ackers with their ledgers; one that does not answer has ``reachable`` false and says why."""
    summaries = sorted(client.cluster().ackers, key=lambda acker: (acker.presence.host, acker.presence.grpc_port))
    if not summaries:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(summaries))) as pool:
        return list(pool.map(lambda summary: _acker_dict(client, summary), summaries))


def _acker_dict(client: NimbusClient, summary: nimbus_pb2.AckerSummary) -> dict[str, Any]:
    presence = summary.presence
    address = f"{presence.host}:{presence.grpc_port}"
    acker: dict[str, Any] = {
        "id": presence.id,
        "address": address,
        "http": f"{presence.host}:{presence.http_port}",
        "pid": presence.pid,
        "shards_assigned": summary.shards,
        "draining": presence.draining,
    }
    try:
        ledger = client.ledger(address)
    except TupletreeError as error:
        reason = str(error).removeprefix(f"acker at {address} ")
        return {**acker, "reachable": False, "ready": False, "reasons": [reason], "shards": []}
    shards = sorted(ledger.shards, key=lambda shard: (shard.topology_id, shard.shard))
    return {
        **acker,
        "draining": ledger.draining,
        "reachable": True,
        "ready": ledger.ready,
        "reasons": list(ledger.reasons),
        "shards": [message_dict(shard) for shard in shards],
    }


def _print(ackers: list[dict[str, Any]]) -> None:
    for acker in ackers:
        state = "ready" if acker["ready"] else "not ready: " + ("; ".join(acker["reasons"]) or "no reason given")
        pending = sum(shard["pending"] for shard in acker["shards"])
        click.echo(
            f"acker {acker['id']} at {acker['address']} (http {acker['http']}, pid {acker['pid']}) is {state}; "
            f"{count(pending)} trees pending"
        )
        if acker["shards"]:
            print_table(
                [
                    "topology",
                    "shard>",
                    "pending>",
                    "oldest>",
                    "inits>",
                    "acks>",
                    "fails>",
                    "resets>",
                    "timeouts>",
                    "completed>",
                    "bytes>",
                ],
                [_shard_row(shard) for shard in acker["shards"]],
            )


def _shard_row(shard: dict[str, Any]) -> tuple[Any, ...]:
    figures = ("inits", "acks", "fails", "resets", "timeouts", "completed", "bytes_held")
    oldest = duration(shard["oldest_age_s"]) if shard["pending"] else "-"
    return (shard["topology_id"], shard["shard"], count(shard["pending"]), oldest, *(count(shard[f]) for f in figures))
