"""``tupletree ackers``."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import count, duration, message_dict, print_json, print_table
from tupletree.errors import TupletreeError, UnavailableError, UsageError

if TYPE_CHECKING:
    from tupletree.client import AckerSummary, NimbusClient

_LOOK_S: Final = 1.0
REPLACED: Final = "another acker answers at this address now"
_RATES: Final = ("inits", "acks", "completed", "fails", "timeouts")


@click.command("ackers")
@click.argument("acker", metavar="[ACKER]", required=False)
@click.option("--topology", metavar="NAME", help="Only shards of this topology.")
@json_option
@client_options
def command(client: NimbusClient, acker: str | None, topology: str | None, as_json: bool) -> None:
    """Show every acker service and its ledger shards, or one acker with its rates.

    PENDING counts the tuple trees that are neither complete nor failed; OLDEST is the age of the oldest. An acker is
    ready unless it drains, is over its limit, or cannot be reached. ACKER is an id, a prefix of an id, or HOST:PORT.
    The command reads that acker twice, one second apart, and shows its rates in between.

    Exit status 0 even if an acker is not ready ('health' reports that); 2 if the acker is not found.

    \b
    Examples:
      tupletree ackers
      tupletree ackers --topology word_count --json
      tupletree ackers 127.0.0.1:6640
    """
    topology_id = client.describe(topology).summary.record.id if topology is not None else None
    ackers = acker_dicts(client)
    if acker is not None:
        ackers = [_detailed(client, _chosen(ackers, acker))]
    if topology_id is not None:
        for one in ackers:
            one["shards"] = [shard for shard in one["shards"] if shard["topology_id"] == topology_id]
    if as_json:
        print_json(ackers)
    elif not ackers:
        click.echo("no acker services")
    else:
        _print(ackers)


def _chosen(ackers: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    found = [one for one in ackers if one["address"] == wanted or one["id"].startswith(wanted)]
    if len(found) > 1:  # one that is dead stays registered for a while, beside its successor
        found = [one for one in found if one["reachable"]] or found
    if len(found) != 1:
        known = ", ".join(f"{one['id']} ({one['address']})" for one in ackers) or "none"
        raise UsageError(f"{'several ackers match' if found else 'no acker matches'} '{wanted}'; known ackers: {known}")
    return found[0]


def _detailed(client: NimbusClient, acker: dict[str, Any]) -> dict[str, Any]:
    """Return the acker's state a moment later, with the rates of each shard in between."""
    if not acker["reachable"]:
        return acker
    before_s = time.monotonic()
    threading.Event().wait(_LOOK_S)
    summaries = [one for one in client.cluster().ackers if one.presence.id == acker["id"]]
    if not summaries:
        raise UnavailableError(f"acker {acker['id']} is no longer registered")
    now = _acker_dict(client, summaries[0])
    elapsed_s = time.monotonic() - before_s
    earlier = {(shard["topology_id"], shard["shard"]): shard for shard in acker["shards"]}
    for shard in now["shards"]:
        old = earlier.get((shard["topology_id"], shard["shard"]))
        shard["per_s"] = {
            name: round(max(0, shard[name] - old[name]) / elapsed_s, 1) if old else None for name in _RATES
        }
    return now


def acker_dicts(client: NimbusClient) -> list[dict[str, Any]]:
    """All registered ackers with their ledgers; an acker that does not answer is not ``reachable``, for a reason."""
    summaries = sorted(client.cluster().ackers, key=lambda acker: (acker.presence.host, acker.presence.grpc_port))
    if not summaries:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(summaries))) as pool:
        return list(pool.map(lambda summary: _acker_dict(client, summary), summaries))


def _acker_dict(client: NimbusClient, summary: AckerSummary) -> dict[str, Any]:
    presence = summary.presence
    address = presence.address
    acker: dict[str, Any] = {
        "id": presence.id,
        "address": address,
        "http": presence.http_address,
        "pid": presence.pid,
        "shards_assigned": summary.shards,
        "draining": presence.draining,
    }
    try:
        ledger = client.ledger(address)
        reason = "" if ledger.acker_id == presence.id else REPLACED
    except TupletreeError as error:
        reason = str(error).removeprefix(f"acker at {address} ")
    if reason:
        return {**acker, "reachable": False, "ready": False, "reasons": [reason], "shards": []}
    shards = sorted(ledger.shards, key=lambda shard: (shard.topology_id, shard.shard))
    return {
        **acker,
        "draining": ledger.draining,
        "reachable": True,
        "ready": ledger.ready,
        "reasons": list(ledger.reasons),
        "shards": [message_dict(shard.raw) for shard in shards],
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
        rates = [(shard, shard["per_s"]) for shard in acker["shards"] if "per_s" in shard]
        if rates:
            rows = [
                (shard["topology_id"], shard["shard"], *("-" if of[f] is None else count(of[f]) for f in _RATES))
                for shard, of in rates
            ]
            print_table(["topology", "shard>", *(f"{name}/s>" for name in _RATES)], rows)


def _shard_row(shard: dict[str, Any]) -> tuple[Any, ...]:
    figures = ("inits", "acks", "fails", "resets", "timeouts", "completed", "bytes_held")
    oldest = duration(shard["oldest_age_s"]) if shard["pending"] else "-"
    return (shard["topology_id"], shard["shard"], count(shard["pending"]), oldest, *(count(shard[f]) for f in figures))
