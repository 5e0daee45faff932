"""Metrics of every daemon and worker at /metrics: process, event loop, readiness, disk, calls.

All names begin with ``tupletree_``, except those that Prometheus' client library adds to any Python process.
"""

from __future__ import annotations

import asyncio
import shutil
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness

LOOKS_S: Final = 1.0
"""Interval of the event loop lag measurement."""

_LAG_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

calls_started = Counter(
    "tupletree_grpc_calls_started", "Calls that were begun here, streams included.", ["method"], registry=None
)
calls_failed = Counter(
    "tupletree_grpc_calls_failed", "Calls that failed here, by status.", ["method", "code"], registry=None
)
calls_active = Gauge(
    "tupletree_grpc_calls_active", "Calls that are being served here, streams included.", ["method"], registry=None
)
"""Calls of this process' gRPC server (tupletree/_rpc/server.py), by offered method and gRPC status code."""


class Buckets:
    """The data of a histogram: counts of values (such as seconds) by bucket. Written by one thread only."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


def cumulated(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulative counts by bucket, as Prometheus expects; the last bucket has no upper bound."""
    total, buckets = 0, []
    for bound, count in zip([*map(_shown, bounds), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _shown(bound: float) -> str:
    return repr(float(bound))


class _Loop(Collector):
    """Event loop lag: the delay between the due time of a scheduled call and its execution."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lag = Buckets(_LAG_BOUNDS_S)
        self._plan()

    def _plan(self) -> None:
        due_s = self._loop.time() + LOOKS_S
        self._loop.call_at(due_s, self._sample, due_s)

    def _sample(self, due_s: float) -> None:
        self._lag.observe(max(0.0, self._loop.time() - due_s))
        self._plan()

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily("tupletree_event_loop_lag_seconds", "Delay of the event loop, each second.")
        family.add_metric([], cumulated(self._lag.bounds, self._lag.counts), self._lag.sum)
        yield family


class _Daemon(Collector):
    """Version, readiness and disk."""

    def __init__(self, role: str, readiness: Readiness, directories: Mapping[str, str]) -> None:
        self._role = role
        self._version = version("tupletree")
        self._readiness = readiness
        self._directories = dict(directories)

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("tupletree_build_info", "1, with role and version.", labels=["role", "version"])
        build.add_metric([self._role, self._version], 1)
        yield build
        yield GaugeMetricFamily("tupletree_ready", "1 if ready, as /readyz says.", float(self._readiness.ready))
        checks = GaugeMetricFamily("tupletree_failing_check", "1 for each check that fails.", labels=["check"])
        for reason in self._readiness.reasons:
            checks.add_metric([reason.partition(":")[0]], 1)
        yield checks
        yield from self._disks()

    def _disks(self) -> Iterator[Metric]:
        free = GaugeMetricFamily("tupletree_disk_free_bytes", "Free space on the directory's disk.", labels=["use"])
        size = GaugeMetricFamily("tupletree_disk_size_bytes", "Size of the directory's disk.", labels=["use"])
        for use, directory in self._directories.items():
            try:
                disk = shutil.disk_usage(directory)
            except OSError:  # the directory does not exist yet
                continue
            free.add_metric([use], disk.free)
            size.add_metric([use], disk.total)
        yield free
        yield size


def daemon_registry(role: str, readiness: Readiness, directories: Mapping[str, str] | None = None) -> CollectorRegistry:
    """Return a registry with the metrics of every daemon. Call in the event loop; without a loop, lag is left out.

    ``directories``: the daemon's directories, by use, to report the free space of their disks.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(_Daemon(role, readiness, directories or {}))
    for calls in (calls_started, calls_failed, calls_active):
        registry.register(calls)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return registry
    registry.register(_Loop(loop))
    return registry
