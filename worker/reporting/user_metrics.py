"""Metrics that components registered with ``context.register_…``, under the names that the components chose.

Components do not know of each other, so two may use the same name for metrics of different kinds. Prometheus rejects a
name with two kinds. In that case the alphabetically first component determines the kind, and metrics of another kind
are left out and logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.metrics import cumulated
from tupletree._log import event
from tupletree._wire.statuses import sentence_of
from tupletree.metrics import Registered, Snapshot

from ..core.task import Task
from ..engine import Engine

log = logging.getLogger(__name__)

_LABELS = ("topology", "component", "task")


class UserMetricsCollector(Collector):
    """Collector of the components' metrics: at most a hundred per task (tupletree/metrics.py)."""

    def __init__(self, engine: Engine, topology: str) -> None:
        self._engine = engine
        self._topology = topology
        self._broken: set[tuple[int, str]] = set()  # (task id, name) of left-out metrics that were logged

    def collect(self) -> Iterator[Metric]:
        tasks = [task for executor in self._engine.executors for task in executor.tasks]
        families: dict[str, tuple[str, Metric]] = {}
        for task in sorted(tasks, key=lambda one: (one.component_id, one.task_id)):
            for metric in list(task.context.metrics.values()):
                self._add(families, task, metric)
        return iter([family for _, family in families.values()])

    def _add(self, families: dict[str, tuple[str, Metric]], task: Task, metric: Registered) -> None:
        if metric.name not in families:
            families[metric.name] = (metric.kind, _family(metric))
        kind, family = families[metric.name]
        if kind != metric.kind:
            self._left_out(task, metric, f"another component has a {kind} of this name, and this is a {metric.kind}")
            return
        labels = [self._topology, task.component_id, str(task.task_id)]
        try:
            value = metric.read()
            if isinstance(family, HistogramMetricFamily):
                assert isinstance(value, Snapshot)
                family.add_metric(labels, cumulated(value.bounds, value.counts), value.sum)
            else:
                assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
                family.add_metric(labels, float(value))  # type: ignore[arg-type]
        except Exception as error:
            self._left_out(task, metric, sentence_of(error))

    def _left_out(self, task: Task, metric: Registered, cause: str) -> None:
        """Log once why a metric is left out. The other metrics are still exposed."""
        if (task.task_id, metric.name) not in self._broken:
            self._broken.add((task.task_id, metric.name))
            where = {"component": task.component_id, "task": task.task_id, "metric": metric.name}
            event(log, "metric.broken", level=logging.WARNING, **where, cause=cause)


def _family(metric: Registered) -> Metric:
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.help, labels=_LABELS)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.help, labels=_LABELS)
        case "histogram":
            return HistogramMetricFamily(metric.name, metric.help, labels=_LABELS)
