"""Responses about the cluster and its daemons, with Storm's fields."""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from tupletree.errors import NotFoundError, UsageError
from tupletree.parallelism import executors_of_record, tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from ..cluster_view import ClusterView
from ..health_inputs import absent_nimbuses
from ..leader.planner import placement_of
from ..leader.scheduler import Slot
from . import resources
from .formatting import uptime_text, worker_log_link

_OFFLINE: Final = "Not applicable"
_FRESH_S: Final = 5.0  # a worker counts as ready only if its last report is at most this old


def summary(view: ClusterView, user: str, letter_stores: int) -> dict[str, Any]:
    """``cluster/summary``. ``letter_stores``: the number of stores of dead letters that the user may see."""
    total = sum(len(one.slots) for one in view.state.supervisors.values())
    free = view.free_slots
    records = view.records()
    return {
        "user": user,
        "stormVersion": view.version,
        "versionMatch": {one.version for one in view.nimbuses.values()} <= {view.version},
        "supervisors": len(view.state.supervisors),
        "topologies": len(records),
        "slotsTotal": total,
        "slotsUsed": total - free,
        "slotsFree": free,
        "executorsTotal": sum(len(executors_of_record(one)) for one in records),
        "tasksTotal": sum(sum(one.tasks.values()) for one in records),
        **resources.cluster_fields(view),
        "bugtracker-url": None,
        "central-log-url": None,
        "alternativeWorkerVersions": [],
        "epoch": view.leader_state.epoch,
        "ackers": len(view.state.ackers),
        "ackersReachable": len(view.ackers.keys() & view.state.ackers.keys()),
        "deadLetterStores": letter_stores,
    }


def nimbuses(view: ClusterView, seeds: Sequence[str], base: str) -> dict[str, Any]:
    """``nimbus/summary``: registered nimbuses, and seeds without a registered nimbus."""
    found: list[dict[str, Any]] = []
    for _, one in sorted(view.nimbuses.items(), key=lambda item: (item[0] != view.leader_id, item[0])):
        uptime_s = max(0, int(view.now_unix_s - one.started_unix_s))
        found.append(
            {
                "host": one.host,
                "port": one.grpc_port,
                "status": "Leader" if one.id == view.leader_id else "Not a Leader",
                "version": one.version,
                "nimbusUpTime": uptime_text(uptime_s),
                "nimbusUpTimeSeconds": str(uptime_s),
                "nimbusLogLink": daemon_log_link(base, "nimbus.log", one.id),
                "id": one.id,
                "httpPort": one.http_port,
            }
        )
    for host, port in absent_nimbuses(view, seeds):
        found.append(
            {
                "host": host,
                "port": port,
                "status": "Offline",
                "version": _OFFLINE,
                "nimbusUpTime": _OFFLINE,
                "nimbusUpTimeSeconds": _OFFLINE,
                "nimbusLogLink": "",
                "id": "",
                "httpPort": 0,
            }
        )
    return {"nimbuses": found}


def supervisors(view: ClusterView, base: str, logviewer_port: int) -> dict[str, Any]:
    """``supervisor/summary``."""
    shown = [_supervisor(view, one, base) for _, one in sorted(view.state.supervisors.items())]
    return {"supervisors": shown, "schedulerDisplayResource": view.resources.is_on, **logviewer(base, logviewer_port)}


def supervisor(view: ClusterView, supervisor_id: str, host: str, base: str, logviewer_port: int) -> dict[str, Any]:
    """``supervisor?id=`` or ``?host=``, with its workers. Raises NotFoundError if no supervisor matches."""
    if not supervisor_id and not host:
        raise UsageError("give the id or the host of a supervisor")
    named = sorted(view.state.supervisors.items())
    found = [one for _, one in named if (one.id == supervisor_id if supervisor_id else one.host == host)]
    if not found:
        what = f"id '{supervisor_id[:200]}'" if supervisor_id else f"host '{host[:200]}'"
        raise NotFoundError(f"there is no supervisor with the {what}")
    ids = {one.id for one in found}
    return {
        "supervisors": [_supervisor(view, one, base) for one in found],
        "workers": [
            worker
            for record in view.records()
            for worker in workers(view, record, base)
            if worker["supervisorId"] in ids
        ],
        "schedulerDisplayResource": view.resources.is_on,
        **logviewer(base, logviewer_port),
    }


def workers(view: ClusterView, record: pb.TopologyRecord, base: str) -> list[dict[str, Any]]:
    """Return the workers of a topology, for the responses about topologies and supervisors."""
    ranges = tasks_of_record(record)
    owner_of = {task: component for component, tasks in ranges.items() for task in tasks}
    found = []
    for worker in view.assignment(record.id).workers:
        reported = view.leader_state.reports.get((record.id, Slot(worker.supervisor_id, worker.port)))
        uptime_s = 0 if reported is None else int(reported.report.uptime_s + view.now_s - reported.at_s)
        tasks = [task for run in worker.executors for task in range(run.first_task, run.last_task + 1)]
        found.append(
            {
                "supervisorId": worker.supervisor_id,
                "host": worker.host,
                "port": worker.port,
                "topologyId": record.id,
                "topologyName": record.name,
                "owner": record.owner,
                "executorsTotal": len(worker.executors),
                "componentNumTasks": dict(Counter(owner_of[task] for task in tasks if task in owner_of)),
                **resources.worker_fields(view, record, worker),
                "uptime": uptime_text(uptime_s),
                "uptimeSeconds": uptime_s,
                "workerLogLink": worker_log_link(base, record.id, worker.host, worker.port),
                "workerId": "" if reported is None else reported.report.worker_id,
                "pid": 0 if reported is None else reported.report.pid,
                "ready": reported is not None and reported.report.ready and view.now_s - reported.at_s <= _FRESH_S,
                "ageSeconds": None if reported is None else round(view.now_s - reported.at_s, 3),
                "httpPort": 0 if reported is None else reported.report.http_port,
            }
        )
    return found


def owners(view: ClusterView) -> dict[str, Any]:
    """``owner-resources``."""
    names = sorted({record.owner for record in view.records()})
    return {"owners": [owner(view, name) for name in names], "schedulerDisplayResource": view.resources.is_on}


def owner(view: ClusterView, name: str) -> dict[str, Any]:
    """Return the combined usage of an owner's topologies. All zeros without topologies, as in Storm."""
    own = [record for record in view.records() if record.owner == name]
    return {
        "owner": name,
        "totalTopologies": len(own),
        "totalWorkers": sum(len(placement_of(view.assignment(one.id))) for one in own),
        "totalExecutors": sum(len(executors_of_record(one)) for one in own),
        "totalTasks": sum(sum(one.tasks.values()) for one in own),
        **resources.owner_fields(view, name, own),
    }


def logviewer(base: str, port: int) -> dict[str, Any]:
    """Return the fields of the log viewer, which is nimbus itself. nimbus reads logs from the supervisors."""
    return {"logviewerPort": port, "logviewerScheme": "https" if base.startswith("https:") else "http"}


def daemon_log_link(base: str, file: str, daemon_id: str) -> str:
    return f"{base}/api/v1/daemonlog?file={quote(file, safe='')}&id={quote(daemon_id, safe='')}"


def _supervisor(view: ClusterView, presence: pb.Presence, base: str) -> dict[str, Any]:
    uptime_s = max(0, int(view.now_unix_s - presence.started_unix_s))
    used = view.used_slots[presence.id]
    return {
        "id": presence.id,
        "host": presence.host,
        "uptime": uptime_text(uptime_s),
        "uptimeSeconds": uptime_s,
        "slotsTotal": len(presence.slots),
        "slotsUsed": used,
        "slotsFree": max(0, len(presence.slots) - used),
        **resources.supervisor_fields(view, presence.id),
        "logLink": daemon_log_link(base, "supervisor.log", presence.id),
        "version": presence.version,
        "blacklisted": bool(view.blacklisted(presence.id)),
        "rack": presence.rack,
        "cgroups": presence.cgroups,
        "isolatedTopology": view.isolated_topology(presence.id),
        "userPool": view.pool(presence.id),
        "port": presence.grpc_port,
        "httpPort": presence.http_port,
        "slots": list(presence.slots),
    }
