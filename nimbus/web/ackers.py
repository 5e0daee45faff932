"""Responses about ackers, an addition to Storm's API: each acker, its shards, and their tuple trees."""

from __future__ import annotations  # pure

from typing import Any

from tupletree._wire.names import TREES_PREFIX
from tupletree.errors import NotFoundError
from tupletree.v1 import topology_pb2 as pb

from ..cluster_view import ClusterView
from ..statistics.acker_stats import LedgerHistory, Totals
from .formatting import encoded, uptime_text


def summary(view: ClusterView) -> dict[str, Any]:
    """``acker/summary``."""
    shown = [_acker(view, one) for _, one in sorted(view.state.ackers.items())]
    return {
        "ackers": shown,
        "pending": sum(one["pending"] for one in shown),
        "oldestAgeSeconds": max((one["oldestAgeSeconds"] for one in shown), default=0.0),
        "unassignedShards": sum(not shard.acker_id for one in view.assignments().values() for shard in one.shards),
    }


def page(view: ClusterView, acker_id: str) -> dict[str, Any]:
    """``acker/{id}``. Raises NotFoundError for an unknown id."""
    presence = _presence(view, acker_id)
    ledger = view.ledgers.get(acker_id, LedgerHistory())
    told = {(one.topology_id, one.shard): one for one in ledger.shards if one.topology_id not in view.hidden}
    names = {record.id: record.name for record in view.records()}
    shards = []
    for topology_id, assignment in view.assignments().items():
        for one in assignment.shards:
            role = "current" if one.acker_id == acker_id else "draining" if one.draining_acker_id == acker_id else ""
            if role:
                found = told.pop((topology_id, one.shard), None)
                shards.append(_shard(topology_id, names.get(topology_id, ""), one.shard, role, found))
    for (topology_id, shard), found in sorted(told.items()):
        is_namespace = topology_id.startswith(TREES_PREFIX)
        name = topology_id.removeprefix(TREES_PREFIX) if is_namespace else names.get(topology_id, "")
        shards.append(_shard(topology_id, name, shard, "namespace" if is_namespace else "left over", found))
    return {**_acker(view, presence), "shardList": shards}


def series(view: ClusterView, acker_id: str) -> dict[str, Any]:
    """``acker/{id}/series``: the last ten minutes."""
    _presence(view, acker_id)
    ledger = view.ledgers.get(acker_id, LedgerHistory())
    return {
        "id": acker_id,
        "points": [
            {
                "time": int(1000 * (view.now_unix_s - (view.now_s - one.at_s))),
                "pending": one.pending,
                "oldestAgeSeconds": round(one.oldest_age_s, 3),
                **_rates(one),
            }
            for one in ledger.points
        ],
    }


def _presence(view: ClusterView, acker_id: str) -> pb.Presence:
    presence = view.state.ackers.get(acker_id)
    if presence is None:
        known = ", ".join(sorted(view.state.ackers)) or "there is none"
        raise NotFoundError(f"there is no acker with the id '{acker_id[:200]}'; registered: {known}")
    return presence


def _acker(view: ClusterView, presence: pb.Presence) -> dict[str, Any]:
    uptime_s = max(0, int(view.now_unix_s - presence.started_unix_s))
    ledger = view.ledgers.get(presence.id, LedgerHistory())
    alive = view.ackers.get(presence.id)
    last = ledger.last or Totals(view.now_s)
    reasons = list(ledger.reasons) if alive is not None else ["it does not answer"]
    return {
        "id": presence.id,
        "encodedId": encoded(presence.id),
        "host": presence.host,
        "port": presence.grpc_port,
        "httpPort": presence.http_port,
        "version": presence.version,
        "pid": presence.pid,
        "status": _status(presence, alive is not None, ledger),
        "reachable": alive is not None,
        "ready": alive is not None and ledger.ready,
        "reasons": reasons,
        "draining": presence.draining,
        "uptime": uptime_text(uptime_s),
        "uptimeSeconds": uptime_s,
        "shards": sum(
            shard.acker_id == presence.id for one in view.state.assignments.values() for shard in one.value.shards
        ),
        "pending": last.pending,
        "oldestAgeSeconds": round(last.oldest_age_s, 3),
        "bytesHeld": last.bytes_held,
        "inits": last.inits,
        "acks": last.acks,
        "completed": last.completed,
        "failed": last.fails,
        "timeouts": last.timeouts,
        "resets": last.resets,
        **_rates(last),
        "ageSeconds": round(view.now_s - ledger.last.at_s, 3) if ledger.last is not None else None,
    }


def _status(presence: pb.Presence, is_alive: bool, ledger: LedgerHistory) -> str:
    if not is_alive:
        return "Unreachable"
    if presence.draining:
        return "Draining"
    if ledger.last is None:
        return "Unknown"
    return "Ready" if ledger.ready else "Not ready"


def _rates(one: Totals) -> dict[str, float]:
    return {
        "initsPerSecond": round(one.inits_per_s, 3),
        "completedPerSecond": round(one.completed_per_s, 3),
        "failedPerSecond": round(one.failed_per_s, 3),
        "timeoutsPerSecond": round(one.timeouts_per_s, 3),
    }


def _shard(topology_id: str, name: str, shard: int, role: str, found: Any) -> dict[str, Any]:
    return {
        "topologyId": topology_id,
        "topologyName": name,
        "shard": shard,
        "role": role,
        "pending": found.pending if found else 0,
        "oldestAgeSeconds": round(found.oldest_age_s, 3) if found else 0.0,
        "inits": found.inits if found else 0,
        "acks": found.acks if found else 0,
        "completed": found.completed if found else 0,
        "failed": found.fails if found else 0,
        "timeouts": found.timeouts if found else 0,
        "resets": found.resets if found else 0,
        "bytesHeld": found.bytes_held if found else 0,
    }
