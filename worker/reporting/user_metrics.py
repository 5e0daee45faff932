"""What components registered with ``context.register_…``, as metrics of their own names.

The components of a topology do not know of each other. If two give one name to things of different kinds, those of the
component that comes first in the alphabet are shown, and it is said once that the others are not: a name that is a
counter here and a gauge there is one that Prometheus refuses.
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

from ..core.tasks import Task
from ..engine import Engine

log = logging.getLogger(__name__)

_LABELS = ("topology", "component", "task")


class UserMetricsCollector(Collector):
    """Reads the metrics of an engine's components. At most a hundred of each task (tupletree/metrics.py)."""

    def __init__(self, engine: Engine, topology: str) -> None:
        self._engine = engine
        self._topology = topology
        self._broken: set[tuple[int, str]] = set()  # task id, name: of metrics that were left out, and that was said

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
        """Say once why a figure is not shown; the others are shown all the same."""
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
