"""A worker's Prometheus metrics, read from its tasks at scrape time.

Every metric of a task has the labels topology (the name), component and task; some also have stream, or source and
stream.
Tasks, components and streams are fixed when a topology is submitted, so their number does not grow while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import cumulated, daemon_registry
from tupletree._wire.latency import BOUNDS_S, coarse
from tupletree.v1 import nimbus_pb2

from ..checkpoint.state_sizes import StateSizes
from ..engine import Engine
from ..execution.spout_executor import HELD_BY
from .user_metrics import UserMetricsCollector

TASK = ("topology", "component", "task")
_STREAM = (*TASK, "stream")
_INPUT = (*TASK, "source", "stream")

_TOTALS = {
    "timeouts": ("timed_out_trees", "Trees of a spout that timed out; the failed trees include them."),
    "unheard": ("unheard_trees", "Failed trees of a spout that does not override fail: they are not replayed."),
    "execute_s": ("execute_seconds", "Time spent in a bolt's execute."),
}
_GAUGES = {
    "queued": ("queued_tuples", "Tuples that wait for the task."),
    "pending": ("pending_trees", "Trees of a spout task that are neither acked nor failed."),
    "congested": ("congested", "1 while senders are asked to hold tuples for the task."),
}
_BY_STREAM = {
    "emitted": ("emitted_tuples", "Tuples emitted."),
    "transferred": ("transferred_tuples", "Tuples handed to receiving tasks."),
}
_BY_TREE = {
    "acked": ("acked_trees", "Trees of a spout that are complete, by the stream they were begun on."),
    "failed": ("failed_trees", "Trees of a spout that failed or timed out, by the stream they were begun on."),
}
_BY_INPUT = {
    "executed": ("executed_tuples", "Tuples that a bolt executed, by source and stream."),
    "acked": ("acked_tuples", "Tuples that a bolt acked, by source and stream."),
    "failed": ("failed_tuples", "Tuples that a bolt failed, by source and stream."),
}


class Links(Protocol):
    """The links of a worker to processes of one kind."""

    @property
    def links_up(self) -> int: ...
    @property
    def links_wanted(self) -> int: ...
    @property
    def connects(self) -> int: ...


@dataclass(frozen=True, slots=True)
class About:
    """The identity of this worker."""

    topology: str
    topology_id: str
    worker_id: str
    slot: str


class TaskCollector(Collector):
    """Collector of metrics from the statistics of an engine's tasks."""

    def __init__(self, engine: Engine, topology: str) -> None:
        self._engine = engine
        self._topology = topology

    def collect(self) -> Iterator[Metric]:
        tasks = self._engine.statistics()
        spouts = set(self._engine.spout_tasks)
        of = {task.task_id: [self._topology, task.component_id, str(task.task_id)] for task in tasks}
        for field, (name, text) in _TOTALS.items():
            counter = CounterMetricFamily(f"tupletree_worker_{name}", text, labels=TASK)
            for task in tasks:
                if (task.task_id in spouts) == (field != "execute_s"):
                    counter.add_metric(of[task.task_id], getattr(task, field))
            yield counter
        for field, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"tupletree_worker_{name}", text, labels=TASK)
            for task in tasks:
                if task.task_id in spouts or field != "pending":
                    gauge.add_metric(of[task.task_id], float(getattr(task, field)))
            yield gauge
        yield from self._by_stream(tasks, spouts, of)
        yield from _latencies(tasks, of)
        yield self._held(of)

    def _by_stream(
        self, tasks: list[nimbus_pb2.TaskStats], spouts: set[int], of: Mapping[int, list[str]]
    ) -> Iterator[Metric]:
        for table, are_trees in ((_BY_STREAM, False), (_BY_TREE, True)):
            for field, (name, text) in table.items():
                counter = CounterMetricFamily(f"tupletree_worker_{name}", text, labels=_STREAM)
                for task in tasks:
                    for stream in task.streams if task.task_id in spouts or not are_trees else ():
                        counter.add_metric([*of[task.task_id], stream.stream], getattr(stream, field))
                yield counter
        for field, (name, text) in _BY_INPUT.items():
            counter = CounterMetricFamily(f"tupletree_worker_{name}", text, labels=_INPUT)
            for task in tasks:
                for one in task.inputs:
                    labels = [*of[task.task_id], one.source_component, one.stream]
                    counter.add_metric(labels, getattr(one, field))
            yield counter

    def _held(self, of: Mapping[int, list[str]]) -> Metric:
        text = "Time for which an active spout was not polled, by cause: tasks that it feeds are congested or "
        text += "unreachable, or an acker does not answer or is behind."
        counter = CounterMetricFamily("tupletree_worker_held_seconds", text, labels=(*TASK, "cause"))
        for task, held in self._engine.held_s().items():
            for cause in HELD_BY:
                counter.add_metric([*of[task], cause], held[cause])
        return counter


def _latencies(tasks: list[nimbus_pb2.TaskStats], of: Mapping[int, list[str]]) -> Iterator[Metric]:
    """Yield the sampled latencies. Tasks without buckets are omitted."""
    tables: list[tuple[str, str, Any, Any]] = [
        (
            "process_latency_seconds",
            "Time from execute to ack, of one tuple in about twenty.",
            lambda task: task.process_buckets,
            lambda task: task.process_s_sum,
        ),
        (
            "complete_latency_seconds",
            "Time from a spout's emit to its ack, of one tree in about twenty.",
            lambda task: task.complete_buckets,
            lambda task: task.complete_s_sum,
        ),
    ]
    for name, text, counts_of, sum_of in tables:
        family = HistogramMetricFamily(f"tupletree_worker_{name}", text, labels=TASK)
        for task in tasks:
            if counts_of(task):
                family.add_metric(of[task.task_id], cumulated(BOUNDS_S, coarse(counts_of(task))), sum_of(task))
        yield family


class WorkerCollector(Collector):
    """Collector of this worker's identity and of its links."""

    def __init__(self, about: About, links: Mapping[str, Links]) -> None:
        self._about = about
        self._links = dict(links)

    def collect(self) -> Iterator[Metric]:
        about = self._about
        labels = {"topology": about.topology, "topology_id": about.topology_id}
        labels |= {"worker_id": about.worker_id, "slot": about.slot}
        text = "1; identifies the worker, to join the metrics of its process with those of its topology."
        family = GaugeMetricFamily("tupletree_worker_info", text, labels=list(labels))
        family.add_metric(list(labels.values()), 1)
        yield family
        up = GaugeMetricFamily("tupletree_worker_links_up", "Connections that are up.", labels=["topology", "peer"])
        wanted = GaugeMetricFamily(
            "tupletree_worker_links_wanted", "Connections that should be up.", labels=["topology", "peer"]
        )
        connects = CounterMetricFamily(
            "tupletree_worker_connects", "Connections established, including reconnects.", labels=["topology", "peer"]
        )
        for peer, links in self._links.items():
            up.add_metric([about.topology, peer], links.links_up)
            wanted.add_metric([about.topology, peer], links.links_wanted)
            connects.add_metric([about.topology, peer], links.connects)
        yield from (up, wanted, connects)


class StateCollector(Collector):
    """Collector of the sizes of states. A scrape shows those of the measurement before, and begins the next one."""

    def __init__(self, sizes: StateSizes, topology: str) -> None:
        self._sizes = sizes
        self._topology = topology

    def collect(self) -> Iterator[Metric]:
        keys = GaugeMetricFamily(
            "tupletree_worker_state_keys", "Committed keys in the state of a task; large states: about.", labels=TASK
        )
        size = GaugeMetricFamily(
            "tupletree_worker_state_bytes", "Their bytes and those of their values; large states: about.", labels=TASK
        )
        for task, found in self._sizes.last():
            labels = [self._topology, task.component_id, str(task.task_id)]
            keys.add_metric(labels, found.keys)
            size.add_metric(labels, found.bytes)
        yield from (keys, size)


def registry(
    engine: Engine, about: About, readiness: Readiness, links: Mapping[str, Links], sizes: StateSizes
) -> CollectorRegistry:
    """Return the registry behind a worker's /metrics. ``links``: by the kind of process at the other end."""
    metrics = daemon_registry("worker", readiness)
    metrics.register(WorkerCollector(about, links))
    metrics.register(StateCollector(sizes, about.topology))
    add_tasks(metrics, engine, about.topology)
    return metrics


def add_tasks(metrics: CollectorRegistry, engine: Engine, topology: str) -> None:
    """Register the metrics of an engine's tasks, and the metrics that their components registered."""
    metrics.register(TaskCollector(engine, topology))
    metrics.register(UserMetricsCollector(engine, topology))


def text_of_tasks(engine: Engine, topology: str) -> str:
    """Return the metrics of an engine's tasks as text."""
    metrics = CollectorRegistry()
    add_tasks(metrics, engine, topology)
    return generate_latest(metrics).decode()
