"""The page of a supervisor's metrics, which measures what is on its disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http import HTTPStatus

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tupletree import config
from tupletree._daemon.health import Readiness
from tupletree.supervisor.config import SupervisorConfig
from tupletree.supervisor.metrics import Metrics


class Disk(Collector):
    """A disk that takes its time, until the supervisor has done something else."""

    def __init__(self) -> None:
        self.is_measured = False
        self.goes_on = threading.Event()

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        self.is_measured = True
        assert self.goes_on.wait(10), "the event loop waits"
        return iter(())


def test_heartbeats_do_not_wait_while_the_files_are_measured() -> None:
    async def run() -> None:
        metrics = Metrics(SupervisorConfig.from_conf(config.defaults()), Readiness(), [6700], lambda: ["empty"])
        disk = Disk()
        metrics.registry.register(disk)
        page = asyncio.create_task(metrics.page())
        while not disk.is_measured:
            await asyncio.sleep(0.001)
        disk.goes_on.set()  # by the event loop
        status, _, text = await page
        assert status is HTTPStatus.OK
        assert b'tupletree_supervisor_slots{state="empty"} 1.0' in text
        assert b"tupletree_supervisor_kept_bundle_bytes" in text

    asyncio.run(run())
