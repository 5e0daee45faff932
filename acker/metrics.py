"""The acker's figures for Prometheus: computed when asked, from the same summary that /ledger shows.

Labels are topology and shard; both go away with the topology, so their number is bounded by what is served now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree.v1 import acker_pb2 as pb

from .gate import Gate

_LABELS = ("topology", "shard")
_GAUGES = {
    "pending": ("pending_trees", "Tuple trees whose end is awaited."),
    "oldest_age_s": ("oldest_pending_age_seconds", "Time since the first update of the oldest pending tree."),
    "bytes_held": ("held_bytes", "Memory held by the ledger, computed."),
}
_COUNTERS = {
    "inits": ("inits", "Inits received."),
    "acks": ("acks", "Acks received, combined ones counted once."),
    "fails": ("fails", "Fails received."),
    "resets": ("resets", "Timeout resets received."),
    "timeouts": ("timeouts", "Tuple trees that expired."),
    "completed": ("completed_trees", "Tuple trees that were fully processed."),
}


class Described(Protocol):
    """What the figures come from."""

    @property
    def streams(self) -> int: ...
    @property
    def undelivered(self) -> int: ...
    def describe(self) -> pb.DescribeLedgerReply: ...


class LedgerCollector(Collector):
    """Turns one summary into metrics."""

    def __init__(self, service: Described, gate: Gate) -> None:
        self._service = service
        self._gate = gate

    def collect(self) -> Iterator[Metric]:
        reply = self._service.describe()
        for field, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"tupletree_acker_{name}", text, labels=_LABELS)
            for shard in reply.shards:
                gauge.add_metric([shard.topology_id, str(shard.shard)], getattr(shard, field))
            yield gauge
        for field, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(f"tupletree_acker_{name}", text, labels=_LABELS)
            for shard in reply.shards:
                counter.add_metric([shard.topology_id, str(shard.shard)], getattr(shard, field))
            yield counter
        yield GaugeMetricFamily("tupletree_acker_ready", "1 if fit for work.", float(reply.ready))
        yield GaugeMetricFamily("tupletree_acker_draining", "1 while finishing old trees.", float(reply.draining))
        yield GaugeMetricFamily("tupletree_acker_streams", "Workers connected.", self._service.streams)
        yield GaugeMetricFamily("tupletree_acker_entries", "Entries in all ledgers.", self._gate.entries)
        yield GaugeMetricFamily("tupletree_acker_max_entries", "Entries beyond which reading stops.", self._gate.limit)
        yield GaugeMetricFamily("tupletree_acker_held_messages", "Messages held back for room.", self._gate.waiting)
        waiting = self._service.undelivered
        yield GaugeMetricFamily("tupletree_acker_undelivered_verdicts", "Verdicts not yet taken by workers.", waiting)


def registry(service: Described, gate: Gate) -> CollectorRegistry:
    """Everything /metrics shows: the ledgers, and the process' own figures."""
    collectors = CollectorRegistry()
    collectors.register(LedgerCollector(service, gate))
    ProcessCollector(registry=collectors)
    PlatformCollector(registry=collectors)
    GCCollector(registry=collectors)
    return collectors
