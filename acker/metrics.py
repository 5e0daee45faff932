"""The acker's Prometheus metrics, computed at scrape time from the summary that /ledger shows.

Labels are topology (its name), topology_id and shard. They disappear with the topology, so label cardinality is bounded
by the topologies served now. topology_id is a label because a killed topology and its successor of the same name can
both have trees here for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import cumulated, daemon_registry
from tupletree._wire.names import topology_name
from tupletree.v1 import acker_pb2 as pb

from .admission import Admission
from .work_counters import WorkCounters

_LABELS = ("topology", "topology_id", "shard")
_GAUGES = {
    "pending": ("pending_trees", "Pending tuple trees."),
    "oldest_age_s": ("oldest_pending_age_seconds", "Time since the first update of the oldest pending tree."),
    "bytes_held": ("held_bytes", "Memory held by the ledger, computed from its arrays."),
}
_COUNTERS = {
    "inits": ("inits", "Inits received."),
    "acks": ("acks", "Acks received; combined acks count once."),
    "fails": ("fails", "Fails received."),
    "resets": ("resets", "Timeout resets received."),
    "timeouts": ("expired_trees", "Tuple trees that expired."),
    "completed": ("completed_trees", "Tuple trees that were fully processed."),
}


class Described(Protocol):
    """The source of the metrics."""

    @property
    def streams(self) -> int: ...
    @property
    def undelivered(self) -> int: ...
    @property
    def work(self) -> WorkCounters: ...
    def describe(self) -> pb.DescribeLedgerReply: ...
    def timeouts_s(self) -> Mapping[str, float]: ...


class LedgerCollector(Collector):
    """Convert a summary into metrics."""

    def __init__(self, service: Described, admission: Admission) -> None:
        self._service = service
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        reply = self._service.describe()
        for field, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"tupletree_acker_{name}", text, labels=_LABELS)
            for shard in reply.shards:
                gauge.add_metric(
                    [topology_name(shard.topology_id), shard.topology_id, str(shard.shard)], getattr(shard, field)
                )
            yield gauge
        for field, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(f"tupletree_acker_{name}", text, labels=_LABELS)
            for shard in reply.shards:
                counter.add_metric(
                    [topology_name(shard.topology_id), shard.topology_id, str(shard.shard)], getattr(shard, field)
                )
            yield counter
        yield GaugeMetricFamily("tupletree_acker_ready", "1 if fit for work.", float(reply.ready))
        yield GaugeMetricFamily("tupletree_acker_draining", "1 while finishing old trees.", float(reply.draining))
        yield GaugeMetricFamily("tupletree_acker_streams", "Workers connected.", self._service.streams)
        yield GaugeMetricFamily("tupletree_acker_entries", "Entries in all ledgers.", self._admission.entries)
        yield GaugeMetricFamily(
            "tupletree_acker_max_entries", "Entries beyond which new trees wait.", self._admission.limit
        )
        yield GaugeMetricFamily(
            "tupletree_acker_held_messages", "Messages whose inits wait for room.", self._admission.waiting
        )
        yield self._refused(reply)
        yield from self._timeouts()
        yield from self._work()
        waiting = self._service.undelivered
        yield GaugeMetricFamily("tupletree_acker_undelivered_verdicts", "Verdicts not yet sent to workers.", waiting)

    def _refused(self, reply: pb.DescribeLedgerReply) -> Metric:
        text = "Trees refused because their namespace had as many open trees as it may have."
        counter = CounterMetricFamily("tupletree_acker_refused_trees", text, labels=("namespace",))
        for namespace in reply.namespaces:
            counter.add_metric([namespace.name], namespace.refused)
        return counter

    def _timeouts(self) -> Iterator[Metric]:
        text = "The message timeout of a topology; 0: it has none."
        gauge = GaugeMetricFamily("tupletree_acker_message_timeout_seconds", text, labels=_LABELS[:2])
        for topology_id, timeout_s in self._service.timeouts_s().items():
            gauge.add_metric([topology_name(topology_id), topology_id], timeout_s)
        yield gauge

    def _work(self) -> Iterator[Metric]:
        work = self._service.work
        yield CounterMetricFamily("tupletree_acker_update_messages", "Messages with updates.", work.messages)
        yield CounterMetricFamily(
            "tupletree_acker_update_bytes", "Bytes of ids and values in updates.", work.update_bytes
        )
        yield CounterMetricFamily("tupletree_acker_streams_opened", "Workers that connected.", work.streams_opened)
        applied = HistogramMetricFamily("tupletree_acker_apply_seconds", "Time to apply a part of a message's updates.")
        applied.add_metric([], cumulated(work.apply_s.bounds, work.apply_s.counts), work.apply_s.sum)
        yield applied


def metrics_registry(service: Described, admission: Admission, readiness: Readiness) -> CollectorRegistry:
    """Return the registry behind /metrics: metrics of the ledgers, and those common to all daemons."""
    collectors = daemon_registry("acker", readiness)
    collectors.register(LedgerCollector(service, admission))
    return collectors
