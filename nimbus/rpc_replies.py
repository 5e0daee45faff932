"""Replies to the read-only calls, built from the state in ZooKeeper and the workers' reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tupletree._health.assessment import Fault, Verdict
from tupletree.errors import NotFoundError
from tupletree.parallelism import executors_of_record, task_ranges
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .leader.cluster_state import ClusterState
from .leader.leader_state import LeaderState
from .leader.planner import placement_of, unscheduled
from .leader.scheduler import Slot
from .masking import masked
from .statistics.ack_detector import remarks
from .statistics.topology_statistics import summarize


def topologies(
    loaded: ClusterState, leader_state: LeaderState, now_s: float, now_unix_s: float
) -> list[rpc.TopologySummary]:
    """Return every topology of ``loaded``, oldest first."""
    records = sorted((one.value for one in loaded.records.values()), key=lambda one: (one.submitted_unix_s, one.id))
    return [summary(loaded, leader_state, record, now_s, now_unix_s) for record in records]


def summary(
    loaded: ClusterState, leader_state: LeaderState, record: pb.TopologyRecord, now_s: float, now_unix_s: float
) -> rpc.TopologySummary:
    stored = loaded.assignments.get(record.id)
    placement = placement_of(stored.value) if stored is not None else {}
    ready = [slot for slot in placement if leader_state.is_ready(record.id, slot, now_s)]
    return rpc.TopologySummary(
        record=shown(record, leader_state.unfinished(record.id)),
        workers_used=len(placement),
        executors_total=len(executors_of_record(record)),
        tasks_total=sum(record.tasks.values()),
        workers_ready=len(ready),
        uptime_s=max(0.0, now_unix_s - record.submitted_unix_s),
    )


def topology(
    loaded: ClusterState,
    leader_state: LeaderState,
    record: pb.TopologyRecord,
    spec: pb.TopologySpec,
    errors: Sequence[pb.ComponentError],
    now_s: float,
    now_unix_s: float,
) -> rpc.DescribeTopologyReply:
    """Return everything known about one topology. ``spec`` holds no objects."""
    stored = loaded.assignments.get(record.id)
    assignment = stored.value if stored is not None else None
    kinds = {component.id: component.kind for component in spec.components}
    statistics = leader_state.statistics(record.id)
    said = {one: remark.sentence for one, remark in remarks(statistics, record, kinds, now_s).items()}
    return rpc.DescribeTopologyReply(
        summary=summary(loaded, leader_state, record, now_s, now_unix_s),
        assignment=assignment,
        components=summarize(
            statistics, record, kinds, task_ranges(dict(record.tasks)), executors_of_record(record), now_s, said
        ),
        workers=[worker(leader_state, record.id, one, now_s) for one in (assignment.workers if assignment else ())],
        errors=errors,
        spec=shown_spec(spec),
        unscheduled=unread(loaded, record.id)
        or leader_state.failed_writes.reason(record.id)
        or unscheduled(record, assignment, len(loaded.free_slots())),
    )


def unread(loaded: ClusterState, topology_id: str) -> str:
    """Return the reason why nimbus does not change a topology, as a sentence; empty if everything could be read."""
    why = loaded.unread.get(topology_id)
    if why is None:
        return ""
    return f"What ZooKeeper holds of it cannot be read, so nimbus changes nothing of it: {why}."


def shown(record: pb.TopologyRecord, unfinished: int) -> pb.TopologyRecord:
    """Return a record with secrets masked, as sent to clients. Readers of a topology may not see its secrets.

    ``unfinished``: the number of trees and tuples that a pending kill or rebalance waits for.
    """
    found = pb.TopologyRecord()
    found.CopyFrom(record)
    if found.HasField("pending"):
        found.pending.unfinished = unfinished
    found.conf_json = _masked(record.conf_json)
    return found


def shown_spec(spec: pb.TopologySpec) -> pb.TopologySpec:
    """Return a topology's definition with the secrets in the configurations of its components masked."""
    found = pb.TopologySpec()
    found.CopyFrom(spec)
    for component in found.components:
        component.conf_json = _masked(component.conf_json)
    return found


def _masked(conf_json: str) -> str:
    """Return a configuration with secrets masked; "" if malformed, so that one topology does not fail a whole list."""
    try:
        return json.dumps(masked(json.loads(conf_json))) if conf_json else ""
    except (ValueError, AttributeError, RecursionError):
        return ""


def cluster(
    loaded: ClusterState,
    nimbuses: Mapping[str, pb.Presence],
    leader_id: str,
    reachable: Mapping[str, object],
    epoch: int,
    version: str,
) -> rpc.DescribeClusterReply:
    """Return the daemons and the use of slots. ``reachable``: the ackers that answer, by id."""
    used = loaded.used_slots()
    by_supervisor = Counter(slot.supervisor_id for slot in used)
    shards = Counter(shard.acker_id for one in loaded.assignments.values() for shard in one.value.shards)
    return rpc.DescribeClusterReply(
        nimbuses=[rpc.NimbusSummary(presence=one, leader=one.id == leader_id) for one in _by_id(nimbuses)],
        supervisors=[
            rpc.SupervisorSummary(presence=one, slots_used=by_supervisor[one.id]) for one in _by_id(loaded.supervisors)
        ],
        ackers=[
            rpc.AckerSummary(presence=one, shards=shards[one.id], reachable=one.id in reachable)
            for one in _by_id(loaded.ackers)
        ],
        epoch=epoch,
        version=version,
        slots_total=sum(len(one.slots) for one in loaded.supervisors.values()),
        slots_used=len(used),
        topologies=len(loaded.records),
    )


def health(verdict: Verdict) -> rpc.DescribeHealthReply:
    """Return a verdict as a gRPC reply."""

    def reasons(found: Sequence[Fault]) -> list[rpc.HealthReason]:
        return [rpc.HealthReason(**asdict(one)) for one in found]

    return rpc.DescribeHealthReply(verdict=verdict.status, faults=reasons(verdict.faults), notes=reasons(verdict.notes))


def worker_at(loaded: ClusterState, record: pb.TopologyRecord, host: str, port: int) -> pb.WorkerAssignment:
    """Return the worker of a topology at ``host:port``. Raises NotFoundError."""
    stored = loaded.assignments.get(record.id)
    workers = list(stored.value.workers) if stored is not None else []
    for worker in workers:
        if (worker.host, worker.port) == (host, port):
            return worker
    places = ", ".join(f"{one.host}:{one.port}" for one in workers) or "no worker yet"
    raise NotFoundError(f"topology '{record.name}' has no worker at {host}:{port}; it has {places}")


def _by_id(presences: Mapping[str, pb.Presence]) -> list[pb.Presence]:
    return [presences[one] for one in sorted(presences)]


def worker(leader_state: LeaderState, topology_id: str, worker: pb.WorkerAssignment, now_s: float) -> rpc.WorkerSummary:
    """Return the summary of a worker, with its last report."""
    slot = Slot(worker.supervisor_id, worker.port)
    view = rpc.WorkerSummary(host=worker.host, port=worker.port, ready=leader_state.is_ready(topology_id, slot, now_s))
    view.tasks.extend(task for one in worker.executors for task in range(one.first_task, one.last_task + 1))
    reported = leader_state.reports.get((topology_id, slot))
    if reported is not None:
        view.worker_id = reported.report.worker_id
        view.pid = reported.report.pid
        view.http_port = reported.report.http_port
        view.uptime_s = reported.report.uptime_s
        view.age_s = now_s - reported.at_s
    return view
