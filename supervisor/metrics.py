"""The supervisor's metrics for /metrics."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import get_args

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.http_connection import Page
from tupletree._daemon.metrics import daemon_registry

from .config import SupervisorConfig
from .slot import State
from .slot_events import ExitKind, StopReason

STATES = tuple(one.__name__.lower() for one in get_args(State))
CAUSES = (*(one.value for one in ExitKind), *(one.value for one in StopReason))
_NOTICED_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class _SlotStates(Collector):
    """The slots by state, counted at scrape time."""

    def __init__(self, states: Callable[[], Iterable[str]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("tupletree_supervisor_slots", "Slots by state.", labels=["state"])
        tally = Tally(self._states())
        for state in STATES:
            gauge.add_metric([state], tally[state])
        yield gauge


class _Files(Collector):
    """Disk usage of bundles, blobs and logs, measured at scrape time. An environment has ten thousands of files."""

    def __init__(self, local_dir: str, logs_dir: str) -> None:
        self._bundles, self._blobs = os.path.join(local_dir, "bundles"), os.path.join(local_dir, "blobs")
        self._logs = logs_dir

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("tupletree_supervisor_log_bytes", "Size of the logs of workers.", _size(self._logs))
        text = "Size of the bundles that are unpacked here."
        yield GaugeMetricFamily("tupletree_supervisor_kept_bundle_bytes", text, _size(self._bundles))
        text = "Size of the blobs that are here, in all versions."
        yield GaugeMetricFamily("tupletree_supervisor_kept_blob_bytes", text, _size(self._blobs))


def _size(directory: str) -> int:
    """Return the size of all files below a directory. Files removed meanwhile do not count."""
    size = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


class Metrics:
    """The metrics, and the registry that holds them."""

    def __init__(
        self,
        config: SupervisorConfig,
        readiness: Readiness,
        ports: Sequence[int],
        states: Callable[[], Iterable[str]],
    ) -> None:
        directories = {"local": config.local_dir, "logs": config.logs_dir}
        self.registry = registry = daemon_registry("supervisor", readiness, directories)
        registry.register(_SlotStates(states))
        registry.register(_Files(config.local_dir, config.logs_dir))
        self.launches = Counter(
            "tupletree_supervisor_worker_launches", "Workers launched, by slot.", ["slot"], registry=registry
        )
        self.adoptions = Counter("tupletree_supervisor_worker_adoptions", "Workers adopted.", registry=registry)
        self.exits = Counter(
            "tupletree_supervisor_worker_exits", "Worker exits by slot and cause.", ["slot", "cause"], registry=registry
        )
        self.misses = Counter(
            "tupletree_supervisor_bundle_failures", "Failed attempts to localize a bundle.", registry=registry
        )
        self.received = Counter(
            "tupletree_supervisor_bundle_bytes", "Bytes of bundles and blobs received.", registry=registry
        )
        self.removal = Histogram(
            "tupletree_supervisor_presence_removal_seconds",
            "Time from noticing a worker's end to removing its presence.",
            buckets=_NOTICED_S,
            registry=registry,
        )
        # Exported from the start, at 0, so that the first crash is visible as an increase.
        for port in map(str, ports):
            self.launches.labels(port)
            for cause in CAUSES:
                self.exits.labels(port, cause)
        self._measuring = asyncio.Lock()

    async def page(self) -> Page:
        """Return the page of the metrics. It is made in a thread: the files are many, and heartbeats must not wait."""
        async with self._measuring:
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, await asyncio.to_thread(generate_latest, self.registry)
