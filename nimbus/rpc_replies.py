"""Replies to the read-only calls, built from a ClusterView."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict

from tupletree._health.assessment import Fault, Verdict
from tupletree.errors import NotFoundError
from tupletree.parallelism import executors_of_record, tasks_of_record
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .cluster_view import ClusterView
from .debug_settings import in_force
from .leader.history import in_short, with_name
from .leader.leader_state import LeaderState
from .leader.planner import placement_of
from .leader.scheduler import Slot
from .masking import masked
from .statistics.ack_detector import remarks
from .statistics.topology_statistics import summarize

_MAX_IN_FULL = 20  # removed topologies; nimbus.proto promises this number


def topologies(view: ClusterView) -> list[rpc.TopologySummary]:
    """Return every topology, oldest first."""
    return [summary(view, record) for record in view.records()]


def summary(view: ClusterView, record: pb.TopologyRecord) -> rpc.TopologySummary:
    placement = placement_of(view.assignment(record.id))
    state, now_s = view.leader_state, view.now_s
    unfinished = state.unfinished(record.id) if record.HasField("pending") else 0
    ready = [slot for slot, run in placement.items() if state.is_ready(record.id, slot, run, now_s)]
    return rpc.TopologySummary(
        record=shown(in_force(record, view.now_unix_s), unfinished),
        workers_used=len(placement),
        executors_total=len(executors_of_record(record)),
        tasks_total=sum(record.tasks.values()),
        workers_ready=len(ready),
        uptime_s=max(0.0, view.now_unix_s - record.submitted_unix_s),
    )


def past_topologies(past: Sequence[pb.PastTopology], name: str) -> list[pb.PastTopology]:
    """Return removed topologies: all of them in short, or in full those with a name or id. Raises NotFoundError."""
    return with_name(past, name)[:_MAX_IN_FULL] if name else [in_short(one) for one in past]


def topology(
    view: ClusterView, record: pb.TopologyRecord, spec: pb.TopologySpec, errors: Sequence[pb.ComponentError]
) -> rpc.DescribeTopologyReply:
    """Return everything known about one topology. ``spec`` holds no objects."""
    now_s, assignment = view.now_s, view.assignment(record.id)
    kinds = {component.id: component.kind for component in spec.components}
    statistics = view.leader_state.statistics(record.id)
    said = {one: remark.sentence for one, remark in remarks(statistics, record, kinds, now_s).items()}
    return rpc.DescribeTopologyReply(
        summary=summary(view, record),
        assignment=assignment if record.id in view.state.assignments else None,
        components=summarize(
            statistics, record, kinds, tasks_of_record(record), executors_of_record(record), now_s, said
        ),
        workers=[worker(view.leader_state, record.id, one, now_s) for one in assignment.workers],
        errors=errors,
        spec=shown_spec(spec),
        unscheduled=view.unscheduled(record),
    )


def shown(record: pb.TopologyRecord, unfinished: int) -> pb.TopologyRecord:
    """Return a record with secrets masked, as sent to clients. Readers of a topology may not see its secrets.

    ``unfinished``: the number of trees and tuples that a pending kill or rebalance waits for.
    """
    found = pb.TopologyRecord()
    found.CopyFrom(record)
    if found.HasField("pending"):
        found.pending.unfinished = unfinished
        _mask_texts(found.pending.conf)
        if found.pending.HasField("update"):
            _mask(found.pending.update)
    for version in (found.previous, found.earlier):
        if version.number or version.bundle_sha256:
            _mask(version)
    _mask(found)
    return found


def _mask(found: pb.TopologyRecord | pb.TopologyVersion) -> None:
    found.conf_json = _masked(found.conf_json)
    _mask_texts(found.submitted_conf)


def _mask_texts(texts: MutableMapping[str, str]) -> None:
    """Mask the secrets in a map of keys to values as JSON, where an empty text stands for no value."""
    values = {name: json.loads(text) for name, text in texts.items() if text}
    for name, value in masked(values).items():
        texts[name] = json.dumps(value)


def shown_spec(spec: pb.TopologySpec) -> pb.TopologySpec:
    """Return a topology's definition with the secrets in the configurations of its components masked."""
    found = pb.TopologySpec()
    found.CopyFrom(spec)
    for component in found.components:
        component.conf_json = _masked(component.conf_json)
    return found


@functools.lru_cache(1024)
def _masked(conf_json: str) -> str:
    """Return a configuration with secrets masked; "" if malformed, so that one topology does not fail a whole list."""
    try:
        return json.dumps(masked(json.loads(conf_json))) if conf_json else ""
    except (ValueError, AttributeError, RecursionError):
        return ""


def cluster(view: ClusterView) -> rpc.DescribeClusterReply:
    """Return the daemons and the use of slots."""
    state = view.state
    shards = Counter(shard.acker_id for one in state.assignments.values() for shard in one.value.shards)
    return rpc.DescribeClusterReply(
        nimbuses=[rpc.NimbusSummary(presence=one, leader=one.id == view.leader_id) for one in _by_id(view.nimbuses)],
        supervisors=[_supervisor(view, one) for one in _by_id(state.supervisors)],
        ackers=[
            rpc.AckerSummary(presence=one, shards=shards[one.id], reachable=one.id in view.ackers)
            for one in _by_id(state.ackers)
        ],
        epoch=view.leader_state.epoch,
        version=view.version,
        slots_total=sum(len(one.slots) for one in state.supervisors.values()),
        slots_used=view.used_slots.total(),
        topologies=len(view.records()),
        scheduler=view.leader_state.scheduling.name,
    )


def _supervisor(view: ClusterView, presence: pb.Presence) -> rpc.SupervisorSummary:
    used = view.resources.used(presence.id)
    return rpc.SupervisorSummary(
        presence=presence,
        slots_used=view.used_slots[presence.id],
        cpu_percent_used=used.cpu_percent,
        memory_mb_used=used.memory_mb,
        resources_used={name: amount for name, amount in used.named.items() if amount},
        blacklisted=view.blacklisted(presence.id),
        isolated_topology=view.isolated_topology(presence.id),
        pool=view.pool(presence.id),
    )


def health(verdict: Verdict) -> rpc.DescribeHealthReply:
    """Return a verdict as a gRPC reply."""

    def reasons(found: Sequence[Fault]) -> list[rpc.HealthReason]:
        return [rpc.HealthReason(**asdict(one)) for one in found]

    return rpc.DescribeHealthReply(verdict=verdict.status, faults=reasons(verdict.faults), notes=reasons(verdict.notes))


def worker_at(view: ClusterView, record: pb.TopologyRecord, host: str, port: int) -> pb.WorkerAssignment:
    """Return the worker of a topology at ``host:port``. Raises NotFoundError."""
    workers = view.assignment(record.id).workers
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
    executors = [(one.first_task, one.last_task) for one in worker.executors]
    ready = leader_state.is_ready(topology_id, slot, executors, now_s)
    found = rpc.WorkerSummary(host=worker.host, port=worker.port, ready=ready)
    found.tasks.extend(task for one in worker.executors for task in range(one.first_task, one.last_task + 1))
    reported = leader_state.reports.get((topology_id, slot))
    if reported is not None:
        found.worker_id = reported.report.worker_id
        found.pid = reported.report.pid
        found.http_port = reported.report.http_port
        found.uptime_s = reported.report.uptime_s
        found.age_s = now_s - reported.at_s
    return found
