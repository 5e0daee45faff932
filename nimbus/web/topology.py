"""Responses about topologies, with Storm's fields."""

from __future__ import annotations  # pure

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from tupletree._health.errors import Complaint
from tupletree._wire.latency import percentile_s
from tupletree._wire.names import is_system
from tupletree.errors import NotFoundError
from tupletree.parallelism import executors_of_record, tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from ..cluster_view import ClusterView
from ..health_inputs import folded
from ..leader.lifecycle import message_timeout_s
from ..leader.planner import placement_of
from ..masking import masked
from ..statistics.ack_detector import Remark, remarks
from ..statistics.acker_stats import COMPONENT as ACKERS
from ..statistics.counters import Counts, Figures, add_counts
from ..statistics.timeseries import STEP_S, summed
from ..statistics.topology_statistics import TopologyStatistics
from . import cluster, resources
from .formatting import (
    WINDOWS,
    encoded,
    error_fields,
    error_place,
    number_text,
    percentiles,
    status_name,
    uptime_text,
    window_hint,
)

_ERROR_LENGTH = 200


@dataclass(frozen=True)
class Topology:
    """Snapshot of one topology, from which responses are built. ``spec`` holds no objects."""

    view: ClusterView
    record: pb.TopologyRecord
    spec: pb.TopologySpec
    errors: Sequence[pb.ComponentError]  # newest first
    base: str  # URL of this nimbus as the client addresses it

    @property
    def statistics(self) -> TopologyStatistics:
        return self.view.leader_state.statistics(self.record.id)

    @property
    def kinds(self) -> dict[str, pb.ComponentKind]:
        return {one.id: one.kind for one in self.spec.components}

    @cached_property
    def remarks(self) -> dict[str, Remark]:
        """Remarks on components, by id, as in ``cluster/health``."""
        return remarks(self.statistics, self.record, self.kinds, self.view.now_s)

    def remark(self, component_id: str) -> dict[str, str]:
        """Return the remark on a component; empty strings without a remark."""
        found = self.remarks.get(component_id, Remark())
        return {"remark": found.sentence, "remarkKind": found.kind}

    @cached_property
    def complaints(self) -> list[Complaint]:
        """Errors, newest first. Errors with the same component and message are merged."""
        return folded(self.view, self.record, self.errors)

    def statistics_of(self, component_id: str) -> TopologyStatistics:
        """Return the statistics that have the tasks of a component."""
        if component_id == ACKERS:
            return self.view.leader_state.acker_statistics(self.record.id)
        return self.statistics

    def tasks(self, component_id: str) -> range:
        """Return the tasks of a component; of the ackers, the shards."""
        if component_id == ACKERS:
            return range(self.record.acker_shards)
        return tasks_of_record(self.record)[component_id]

    def executors(self, component_id: str) -> list[range]:
        """Return the executors of a component, each as a range of tasks."""
        tasks = self.tasks(component_id)
        if component_id == ACKERS:
            return [range(shard, shard + 1) for shard in tasks]
        found = (range(first, last + 1) for first, last in executors_of_record(self.record))
        return [one for one in found if one.start in tasks]

    def figures(self, component_id: str, window: str) -> Figures:
        counts = self.statistics_of(component_id).counts(component_id, WINDOWS[window], self.view.now_s)
        return Figures(counts)

    def workers_ready(self) -> int:
        """Return the number of workers that are ready according to their recent reports."""
        ready = (worker["ready"] for worker in cluster.workers(self.view, self.record, self.base))
        return sum(ready)

    def capacity(self, component_id: str) -> float:
        return self.statistics_of(component_id).capacity(self.executors(component_id), self.view.now_s)

    def components(self, kind: pb.ComponentKind, sys: bool) -> list[str]:
        """Return the ids of the components of a kind, sorted."""
        known = self.kinds
        return [one for one in sorted(self.record.tasks) if known.get(one) == kind and (sys or not is_system(one))]


def summaries(view: ClusterView, owner: str | None = None) -> dict[str, Any]:
    """``topology/summary``."""
    found = [summary(view, one) for one in view.records() if owner is None or one.owner == owner]
    return {"topologies": found, "schedulerDisplayResource": view.resources.is_on}


def summary(view: ClusterView, record: pb.TopologyRecord) -> dict[str, Any]:
    """Return the entry of a topology in lists of topologies."""
    assignment = view.assignment(record.id)
    uptime_s = max(0, int(view.now_unix_s - record.submitted_unix_s))
    return {
        "id": record.id,
        "encodedId": encoded(record.id),
        "name": record.name,
        "owner": record.owner,
        "status": status_name(record),
        "uptime": uptime_text(uptime_s),
        "uptimeSeconds": uptime_s,
        "tasksTotal": sum(record.tasks.values()),
        "workersTotal": len(placement_of(assignment)),
        "executorsTotal": len(executors_of_record(record)),
        "replicationCount": view.holders,
        "schedulerInfo": view.unscheduled(record) or None,
        **resources.topology_fields(view, record),
        "topologyVersion": _version(record.conf_json),
        "stormVersion": view.version,
        "ackerShards": record.acker_shards,
        "workersWanted": record.workers,
        "updateNumber": record.version,
        "previousUpdateNumber": record.previous.number if record.HasField("previous") else None,
        "updateIsStarting": bool(record.trial_began_unix_s),
        "pendingDueUnixSeconds": record.pending.due_unix_s or None,
        "pendingUnfinished": view.leader_state.unfinished(record.id) if record.HasField("pending") else None,
    }


@lru_cache(maxsize=1000)
def _version(conf_json: str) -> str | None:
    """Return the user's version of a topology (``topology.version``)."""
    try:
        version = json.loads(conf_json or "{}").get("topology.version")
    except (ValueError, AttributeError, RecursionError):  # one bad record must not fail the list
        return None
    return None if version is None else str(version)


def page(topology: Topology, window: str, sys: bool, user: str) -> dict[str, Any]:
    """``topology/{id}``."""
    view, record = topology.view, topology.record
    conf = json.loads(record.conf_json) if record.conf_json else {}
    sampled = dict(record.sampled_percent)
    ackers = [ACKERS] if sys and record.acker_shards else []
    return {
        **summary(view, record),
        "user": user,
        "window": window,
        "windowHint": window_hint(window),
        "msgTimeout": int(message_timeout_s(record)),
        "topologyStats": [_stats(topology, one, sys) for one in WINDOWS],
        "spouts": [_spout(topology, one, window, sys) for one in topology.components(pb.COMPONENT_KIND_SPOUT, sys)],
        "bolts": [
            _bolt(topology, one, window, sys) for one in [*ackers, *topology.components(pb.COMPONENT_KIND_BOLT, sys)]
        ],
        "workers": cluster.workers(view, record, topology.base),
        "configuration": masked(conf),
        "debug": "" in sampled,
        "samplingPct": sampled.get("", 10.0),
        "visualizationTable": [],
        **resources.topology_page_fields(view, record),
        "tracedOneIn": record.traced_one_in,
        "shards": [_shard(one) for one in view.assignment(record.id).shards],
        "topologyErrors": [error(one, topology) for one in reversed(topology.complaints)],
    }


def series(topology: Topology, component_id: str = "") -> dict[str, Any]:
    """``topology/{id}/series``: the last ten minutes of the topology, or of one component.

    For a topology, acked, failed, latencies and pending refer to tuple trees, so they are sums over the spouts.
    """
    view, record, statistics = topology.view, topology.record, topology.statistics
    if component_id and component_id not in record.tasks:
        raise NotFoundError(f"topology '{record.name}' has no component '{component_id[:200]}'")
    spouts = topology.components(pb.COMPONENT_KIND_SPOUT, sys=False)
    trees = summed([statistics.series(one) for one in ([component_id] if component_id else spouts)])
    others = [component_id] if component_id else [one for one in record.tasks if not is_system(one)]
    everything = summed([found for one in others if (found := statistics.series(one))])
    rates = {point.at_s: point for point in everything}
    return {
        "id": record.id,
        "component": component_id or None,
        "stepSeconds": STEP_S,
        "time": int(1000 * view.now_unix_s),
        "points": [
            {
                "time": int(1000 * (view.now_unix_s - (view.now_s - one.at_s))),
                "emittedPerSecond": round(rates.get(one.at_s, one).emitted_per_s, 3),
                "executedPerSecond": round(rates.get(one.at_s, one).executed_per_s, 3),
                "ackedPerSecond": round(one.acked_per_s, 3),
                "failedPerSecond": round(one.failed_per_s, 3),
                "latencyP50": _milliseconds(one.latencies, 0.5),
                "latencyP99": _milliseconds(one.latencies, 0.99),
                "pending": one.pending,
                "queued": rates.get(one.at_s, one).queued,
            }
            for one in trees
        ],
    }


def _milliseconds(buckets: Sequence[int], share: float) -> float | None:
    found = percentile_s(buckets, share)
    return None if found is None else round(1000 * found, 3)


def worker_list(topology: Topology, port: int) -> dict[str, Any]:
    """``topology-workers/{id}``."""
    found = [{"host": one.host, "port": one.port} for one in topology.view.assignment(topology.record.id).workers]
    return {"hostPortList": found, **cluster.logviewer(topology.base, port)}


def error(complaint: Complaint, topology: Topology) -> dict[str, Any]:
    """Return an error with its traceback in one string, as in Storm, and the number of occurrences."""
    return error_fields(complaint, topology.record.id, topology.base, topology.view.now_unix_s)


def spout_totals(figures: Iterable[Figures]) -> Figures:
    """Return the sum of several components' metrics."""
    total: Counts = {}
    for one in figures:
        add_counts(total, one.counts)
    return Figures(total)


def _stats(topology: Topology, window: str, sys: bool) -> dict[str, Any]:
    """Return a topology's metrics in one window. Acked and failed count the tuple trees of its spouts."""
    spouts = topology.components(pb.COMPONENT_KIND_SPOUT, sys=True)
    figures = {one: topology.figures(one, window) for one in topology.record.tasks}
    trees = spout_totals(figures[one] for one in spouts)
    return {
        "window": window,
        "windowPretty": window_hint(window),
        "emitted": sum(one.emitted(sys) for one in figures.values()),
        "transferred": sum(one.transferred(sys) for one in figures.values()),
        "completeLatency": number_text(trees.complete_ms),
        "acked": trees.count("acked"),
        "failed": trees.count("failed"),
        "timeouts": trees.count("timeouts"),
        "completeLatencyPercentiles": percentiles(trees, "complete"),
    }


def _component(topology: Topology, component_id: str, figures: Figures, sys: bool) -> dict[str, Any]:
    last = next((one for one in topology.errors if one.component_id == component_id), None)
    statistics, tasks = topology.statistics_of(component_id), topology.tasks(component_id)
    rates = statistics.rates(tasks, topology.view.now_s)
    return {
        "executors": len(topology.executors(component_id)),
        "tasks": len(tasks),
        "emitted": figures.emitted(sys),
        "transferred": figures.transferred(sys),
        "acked": figures.count("acked"),
        "failed": figures.count("failed"),
        **resources.component_fields(topology.view, topology.record, component_id),
        **_last_error(topology, last),
        "emittedPerSecond": round(rates.emitted, 3),
        "executedPerSecond": round(rates.executed, 3),
        "ackedPerSecond": round(rates.acked, 3),
        **statistics.gauges(tasks),
        **topology.remark(component_id),
    }


def _last_error(topology: Topology, last: pb.ComponentError | None) -> dict[str, Any]:
    if last is None:
        nothing: Mapping[str, Any] = {
            "lastError": "",
            "errorHost": "",
            "errorPort": None,
            "errorTime": None,
            "errorLapsedSecs": None,
            "errorWorkerLogLink": "",
        }
        return dict(nothing)
    return {
        "lastError": (last.message or last.traceback)[:_ERROR_LENGTH],
        "errorTime": int(last.at_unix_s),
        **error_place(last, topology.record.id, topology.base, topology.view.now_unix_s),
    }


def _spout(topology: Topology, component_id: str, window: str, sys: bool) -> dict[str, Any]:
    figures = topology.figures(component_id, window)
    return {
        "spoutId": component_id,
        "encodedSpoutId": encoded(component_id),
        **_component(topology, component_id, figures, sys),
        "completeLatency": number_text(figures.complete_ms),
        "completeLatencyPercentiles": percentiles(figures, "complete"),
        "timeouts": figures.count("timeouts"),
    }


def _bolt(topology: Topology, component_id: str, window: str, sys: bool) -> dict[str, Any]:
    figures = topology.figures(component_id, window)
    return {
        "boltId": component_id,
        "encodedBoltId": encoded(component_id),
        **_component(topology, component_id, figures, sys),
        "capacity": number_text(topology.capacity(component_id)),
        "executeLatency": number_text(figures.execute_ms),
        "executed": figures.count("executed"),
        "processLatency": number_text(figures.process_ms),
        "processLatencyPercentiles": percentiles(figures, "process"),
    }


def _shard(one: pb.ShardAssignment) -> dict[str, Any]:
    return {
        "shard": one.shard,
        "ackerId": one.acker_id,
        "address": one.address,
        "drainingAckerId": one.draining_acker_id,
    }
