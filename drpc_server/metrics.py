"""The DRPC server's Prometheus metrics. Functions are labels only if topologies serve them, or did."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import cumulated, daemon_registry

from .desk import Desk


class DeskCollector(Collector):
    """Convert the desk's counts into metrics."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def collect(self) -> Iterator[Metric]:
        desk = self._desk
        gauges = [
            GaugeMetricFamily("tupletree_drpc_queued_requests", "Requests that wait for a task.", labels=["function"]),
            GaugeMetricFamily("tupletree_drpc_sent_requests", "Requests that tasks work on.", labels=["function"]),
            GaugeMetricFamily("tupletree_drpc_serving_tasks", "Connected tasks of spouts.", labels=["function"]),
        ]
        for function, numbers in desk.requests.functions.items():
            if numbers[2]:
                for gauge, number in zip(gauges, numbers, strict=True):
                    gauge.add_metric([function], number)
        yield from gauges
        labels = ["function", "end"]
        ends = CounterMetricFamily("tupletree_drpc_requests", "Requests that have ended, by their end.", labels=labels)
        for (function, kind), count in desk.ended.items():
            ends.add_metric([function, kind.value], count)
        yield ends
        yield CounterMetricFamily("tupletree_drpc_refused_requests", "Requests refused for lack of room.", desk.refused)
        yield GaugeMetricFamily("tupletree_drpc_pending_requests", "Requests that have not ended.", len(desk.requests))
        text = "The most requests that may be pending."
        yield GaugeMetricFamily("tupletree_drpc_max_pending_requests", text, desk.requests.max_pending)
        text = "Time from the call to its end."
        took = HistogramMetricFamily("tupletree_drpc_request_seconds", text, labels=["function"])
        for function, histogram in desk.seconds.items():
            snapshot = histogram.snapshot()
            took.add_metric([function], cumulated(snapshot.bounds, snapshot.counts), snapshot.sum)
        yield took


def metrics_registry(desk: Desk, readiness: Readiness) -> CollectorRegistry:
    """Return the registry behind /metrics: metrics of the desk, and those common to all daemons."""
    registry = daemon_registry("drpc", readiness)
    registry.register(DeskCollector(desk))
    return registry
