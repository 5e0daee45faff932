"""Responses about what topologies and other programs share, an addition to Storm's API: blobs, namespaces of trees."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import Any, Final

from tupletree.v1 import nimbus_pb2 as rpc

from ..cluster_view import ClusterView
from .schema_objects import Type

BLOBS: Final[Type] = {
    "blobs": [
        {
            "key": "string",
            "version": "integer",
            "bytes": "integer",
            "sha256": "string",
            "owner": "string",
            "users": ["string"],
            "readonlyUsers": ["string"],
            "createdUnixSeconds": "number",
            "updatedUnixSeconds": "number",
            "topologies": ["string"],
        }
    ]
}
_OF_NAMESPACE: Final[Type] = {
    "clients": "integer",
    "openTrees": "integer",
    "maxOpenTrees": "integer",
    "maxUpdatesPerSecond": "integer",
    "timeoutSeconds": "number",
    "begun": "integer",
    "done": "integer",
    "failed": "integer",
    "timedOut": "integer",
    "refused": "integer",
}
NAMESPACES: Final[Type] = {
    "namespaces": [
        {"name": "string", "ackers": [{"id": "string", "host": "string", "port": "integer", **_OF_NAMESPACE}]}
    ]
}


def blobs(found: Sequence[rpc.BlobSummary]) -> dict[str, Any]:
    """``blob/summary``."""
    return {
        "blobs": [
            {
                "key": one.record.key,
                "version": one.record.version,
                "bytes": one.record.bytes,
                "sha256": one.record.sha256,
                "owner": one.record.owner,
                "users": list(one.record.users),
                "readonlyUsers": list(one.record.readonly_users),
                "createdUnixSeconds": one.record.created_unix_s,
                "updatedUnixSeconds": one.record.updated_unix_s,
                "topologies": list(one.topologies),
            }
            for one in found
        ]
    }


def namespaces(view: ClusterView) -> dict[str, Any]:
    """``namespace/summary``: of the ackers that nimbus has asked; each has quotas and counters of its own."""
    found: dict[str, list[dict[str, Any]]] = {}
    for acker_id, presence in sorted(view.state.ackers.items()):
        ledger = view.ledgers.get(acker_id)
        for one in () if ledger is None else ledger.namespaces:
            found.setdefault(one.name, []).append(
                {
                    "id": acker_id,
                    "host": presence.host,
                    "port": presence.grpc_port,
                    "clients": one.clients,
                    "openTrees": one.open_trees,
                    "maxOpenTrees": one.max_open_trees,
                    "maxUpdatesPerSecond": one.max_updates_per_s,
                    "timeoutSeconds": one.timeout_s,
                    "begun": one.begun,
                    "done": one.done,
                    "failed": one.failed,
                    "timedOut": one.timed_out,
                    "refused": one.refused,
                }
            )
    return {"namespaces": [{"name": name, "ackers": ackers} for name, ackers in sorted(found.items())]}
