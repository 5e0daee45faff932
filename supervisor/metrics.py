"""What a supervisor counts, for /metrics."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .slot import State

STATES = tuple(one.__name__.lower() for one in get_args(State))
_NOTICED_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class _SlotStates(Collector):
    """The slots by state, counted when asked."""

    def __init__(self, states: Callable[[], Iterable[str]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("tupletree_supervisor_slots", "Slots by state.", labels=["state"])
        tally = Tally(self._states())
        for state in STATES:
            gauge.add_metric([state], tally[state])
        yield gauge


class Metrics:
    """The counters, and the registry that holds all of them."""

    def __init__(self, states: Callable[[], Iterable[str]]) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(_SlotStates(states))
        self.launches = Counter("tupletree_supervisor_worker_launches", "Workers launched.", registry=registry)
        self.adoptions = Counter("tupletree_supervisor_worker_adoptions", "Workers adopted.", registry=registry)
        self.exits = Counter("tupletree_supervisor_worker_exits", "Workers ended.", ["cause"], registry=registry)
        self.misses = Counter(
            "tupletree_supervisor_bundle_failures", "Failed attempts to localize a bundle.", registry=registry
        )
        self.received = Counter("tupletree_supervisor_bundle_bytes", "Bundle bytes received.", registry=registry)
        self.removal = Histogram(
            "tupletree_supervisor_presence_removal_seconds",
            "From a worker's end, as noticed, until ZooKeeper shows it.",
            buckets=_NOTICED_S,
            registry=registry,
        )
