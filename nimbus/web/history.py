"""Responses about topologies that were removed."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tupletree._health.errors import complaints
from tupletree.v1 import topology_pb2 as pb

from .formatting import encoded, error_fields, uptime_text, worker_log_link


def summary(running: Sequence[pb.TopologyRecord], past: Sequence[pb.PastTopology]) -> dict[str, Any]:
    """``history/summary``: the ids of topologies whose logs may be read, and in short those that were removed."""
    ids = [*(one.id for one in running), *(one.id for one in past)]
    return {"topo-history": ids, "topologies": [_summary(one) for one in past]}


def page(one: pb.PastTopology, base: str, now_unix_s: float) -> dict[str, Any]:
    """``history/{id}``. No error is over: the components have not become healthy again."""
    errors = [replace(complaint, is_over=False) for complaint in complaints(one.errors, {}, (), now_unix_s)]
    return {
        **_summary(one),
        "components": [
            {
                "component": component.component_id,
                "tasks": component.tasks,
                "emitted": component.emitted,
                "executed": component.executed,
                "acked": component.acked,
                "failed": component.failed,
            }
            for component in one.components
        ],
        "workers": [
            {
                "host": worker.host,
                "port": worker.port,
                "supervisorId": worker.supervisor_id,
                "workerLogLink": worker_log_link(base, one.id, worker.host, worker.port),
            }
            for worker in one.workers
        ],
        "errors": [error_fields(complaint, one.id, base, now_unix_s) for complaint in errors],
        "isShortened": one.is_shortened,
    }


def _summary(one: pb.PastTopology) -> dict[str, Any]:
    ran_s = max(0, int(one.removed_unix_s - one.submitted_unix_s))
    return {
        "id": one.id,
        "encodedId": encoded(one.id),
        "name": one.name,
        "owner": one.owner,
        "submittedUnixSeconds": one.submitted_unix_s,
        "removedUnixSeconds": one.removed_unix_s,
        "ranFor": uptime_text(ran_s),
        "ranForSeconds": ran_s,
        "killedBy": one.killed_by,
        "updateNumber": one.version,
    }
