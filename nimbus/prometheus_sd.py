"""Scrape targets for Prometheus's HTTP service discovery: every daemon and worker.

    GET /api/v1/prometheus/targets  ->
        [{"targets": ["10.0.0.7:41223"], "labels": {"__meta_tupletree_role": "worker", …}}, …]

Workers are known by their reports. A worker without a report for a minute is left out, as is a daemon whose node in
ZooKeeper is gone. Any nimbus answers on behalf of the leader; without a leader, Prometheus keeps its last targets.
"""

from __future__ import annotations  # pure

from typing import Any

from tupletree._address import address_of

from .cluster_view import ClusterView

_META = "__meta_tupletree_"

FORGOTTEN_S = 60.0


def targets(view: ClusterView) -> list[dict[str, Any]]:
    """Return one entry per process: the address of its /metrics, and labels."""
    daemons = {"nimbus": view.nimbuses, "supervisor": view.state.supervisors, "acker": view.state.ackers}
    found = [
        _target(one.host, one.http_port, role=role, id=one.id)
        for role, presences in daemons.items()
        for one in sorted(presences.values(), key=lambda one: one.id)
        if one.http_port
    ]
    names = {one.id: one.name for one in view.records()}
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
    return {"targets": [address_of(host, port)], "labels": {_META + name: value for name, value in labels.items()}}
