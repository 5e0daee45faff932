"""The switches of a running worker: what operators switch off and on again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tupletree.worker.debugging.controller import DebugController
from tupletree.worker.debugging.settings import DebugSettings
from tupletree.worker.engine import Engine
from tupletree.worker.hooks.event_loggers import EventLoggers
from tupletree.worker.launch_file import LaunchFile

ENOUGH_S = 60
ON = DebugSettings(one_in=1)


def controller(log_dir: Path) -> DebugController:
    """The switches of a worker without tasks."""
    conf = {"worker.log.max.bytes": 100_000, "worker.log.backups": 1}
    launch = LaunchFile("t-1", "w", "s", "", "here", 6700, "", 0, "", str(log_dir), conf)
    loggers = EventLoggers([], cast(Any, None), lambda *error: None)
    return DebugController(launch, cast(Engine, SimpleNamespace(executors=[], event_loggers=loggers, tracer=None)))


def test_events_are_written_after_a_switch_was_off_for_a_moment(tmp_path: Path) -> None:
    async def run() -> None:
        switches = controller(tmp_path)
        for observed in (ON, DebugSettings(), ON):
            switches.apply(observed)
        await asyncio.get_running_loop().shutdown_default_executor()  # the file of before is closed
        switches._events.put({"at": 0.0, "kind": "ack"})
        file, until_s = tmp_path / "events.jsonl", time.monotonic() + ENOUGH_S
        while not (file.exists() and file.stat().st_size) and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        switches.close()
        assert '"ack"' in file.read_text()

    asyncio.run(run())


def test_events_that_are_switched_off_for_good_are_not_opened_again(tmp_path: Path) -> None:
    async def run() -> None:
        switches = controller(tmp_path)
        switches.apply(ON)
        switches.apply(DebugSettings())
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)
        assert switches._events._queue._thread is None

    asyncio.run(run())
