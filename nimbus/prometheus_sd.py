"""What Prometheus is to scrape: every daemon and worker, as its HTTP service discovery reads it.

    GET /api/v1/prometheus/targets  ->
        [{"targets": ["10.0.0.7:41223"], "labels": {"__meta_tupletree_role": "worker", …}}, …]

Workers are known by their reports: one that has not reported for a minute is left out, as is a daemon whose node in
ZooKeeper is gone. Any nimbus answers, for the leader; while nobody leads, Prometheus goes on with what it was told.
"""

from __future__ import annotations

from typing import Any

from .cluster_view import ClusterView

_META = "__meta_tupletree_"

FORGOTTEN_S = 60.0


def targets(view: ClusterView) -> list[dict[str, Any]]:
    """One entry for each process: where its /metrics is, and what it is."""
    daemons = {"nimbus": view.nimbuses, "supervisor": view.loaded.supervisors, "acker": view.loaded.ackers}
    found = [
        _target(one.host, one.http_port, role=role, id=one.id)
        for role, presences in daemons.items()
        for one in sorted(presences.values(), key=lambda one: one.id)
        if one.http_port
    ]
    names = {id: one.value.name for id, one in view.loaded.records.items()}
    reports = [one.report for one in view.leader_state.reports.values() if view.now_s - one.at_s <= FORGOTTEN_S]
    found += [
        _target(
            report.host,
            report.http_port,
            role="worker",
            id=report.worker_id,
            topology=names[report.topology_id],
            topology_id=report.topology_id,
            slot=f"{report.supervisor_id}:{report.port}",
        )
        for report in sorted(reports, key=lambda one: (one.topology_id, one.worker_id))
        if report.http_port and report.topology_id in names
    ]
    return found


def _target(host: str, port: int, **labels: str) -> dict[str, Any]:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {"targets": [address], "labels": {_META + name: value for name, value in labels.items()}}
