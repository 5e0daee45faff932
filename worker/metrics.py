"""A worker's figures for Prometheus, read from its tasks when asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.logs import event
from tupletree._wire.statuses import sentence_of

from .engine import Engine
from .tasks import Task

log = logging.getLogger(__name__)

_LABELS = ("component", "task")
_COUNTERS = {
    "executed": ("executed_tuples", "Tuples executed."),
    "acked": ("acked_tuples", "Tuples acked; for a spout, trees completed."),
    "failed": ("failed_tuples", "Tuples failed; for a spout, trees failed or timed out."),
    "timeouts": ("timed_out_trees", "Trees of a spout that timed out."),
    "execute_s": ("execute_seconds", "Time spent in execute."),
    "process_s_sum": ("process_seconds", "Time from execute to ack, of the sampled tuples."),
    "process_samples": ("process_samples", "Tuples whose time from execute to ack was measured."),
    "complete_s_sum": ("complete_seconds", "Time from emit to ack of a spout's trees."),
    "complete_samples": ("complete_samples", "Trees whose time from emit to ack was measured."),
}
_GAUGES = {
    "queued": ("queued_tuples", "Tuples that wait for the task."),
    "pending": ("pending_trees", "Trees of a spout task that are neither acked nor failed."),
    "congested": ("congested", "1 while senders are asked to hold tuples for the task."),
}


class TaskCollector(Collector):
    """Turns the statistics of an engine's tasks into metrics. Labels are bounded by the tasks and their streams."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._broken: set[tuple[int, str]] = set()  # task id, name: of metrics that raised, and that was said

    def collect(self) -> Iterator[Metric]:
        tasks = self._engine.statistics()
        for field, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(f"tupletree_worker_{name}", text, labels=_LABELS)
            for task in tasks:
                counter.add_metric([task.component_id, str(task.task_id)], getattr(task, field))
            yield counter
        for field, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"tupletree_worker_{name}", text, labels=_LABELS)
            for task in tasks:
                gauge.add_metric([task.component_id, str(task.task_id)], float(getattr(task, field)))
            yield gauge
        for field, text in (("emitted", "Tuples emitted."), ("transferred", "Tuples handed to receiving tasks.")):
            counter = CounterMetricFamily(f"tupletree_worker_{field}_tuples", text, labels=(*_LABELS, "stream"))
            for task in tasks:
                for stream in task.streams:
                    labels = [task.component_id, str(task.task_id), stream.stream]
                    counter.add_metric(labels, getattr(stream, field))
            yield counter
        yield from self._user_metrics()

    def _user_metrics(self) -> Iterator[Metric]:
        """What components registered with ``context.register_metric``."""
        gauge = GaugeMetricFamily(
            "tupletree_worker_user_metric", "Registered by a component.", labels=(*_LABELS, "name")
        )
        for executor in self._engine.executors:
            for task in executor.tasks:
                for name, read in list(task.context.metrics.items()):
                    value = self._read(task, name, read)
                    if value is not None:
                        gauge.add_metric([task.component_id, str(task.task_id), name], value)
        yield gauge

    def _read(self, task: Task, name: str, read: Callable[[], float]) -> float | None:
        """A component's own figure; None if it raises, so that the others are shown all the same."""
        try:
            return float(read())
        except Exception as error:
            if (task.task_id, name) not in self._broken:
                self._broken.add((task.task_id, name))
                where = {"component": task.component_id, "task": task.task_id, "metric": name}
                event(log, "metric.broken", level=logging.WARNING, **where, cause=sentence_of(error))
            return None


def registry(engine: Engine) -> CollectorRegistry:
    """Everything that a worker's /metrics shows."""
    metrics = CollectorRegistry()
    ProcessCollector(registry=metrics)
    PlatformCollector(registry=metrics)
    GCCollector(registry=metrics)
    metrics.register(TaskCollector(engine))
    return metrics
