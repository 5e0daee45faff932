"""Application of operators' switches in this worker: logger levels, sampled tuples, traced trees.

Level-triggered: the topology's record has the wanted state, and every ``apply`` brings the worker to that state. If a
switch has an end, a timer applies the record again at that time.
"""

from __future__ import annotations

import asyncio
import logging
import time

from tupletree._log import event

from ..engine import Engine
from ..launch_file import LaunchFile
from .event_log import EventLog
from .log_levels import LogLevels
from .sampling import Sampler
from .settings import DebugSettings, Switches
from .tracing import Tracer, follow_collector

log = logging.getLogger(__name__)

_MAX_S = 3600.0  # the longest time until a change of the system clock is noticed


class DebugController:
    """Keeps this worker in step with the switches. Call methods on the event loop's thread."""

    def __init__(self, launch: LaunchFile, engine: Engine) -> None:
        conf = launch.conf
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._events = EventLog(
            launch.log_dir, f"{launch.host}:{launch.port}", conf["worker.log.max.bytes"], conf["worker.log.backups"]
        )
        self._loggers = LogLevels()
        tasks = (task for executor in engine.executors for task in executor.tasks)
        self._sampler = Sampler(tasks, self._events, engine.event_loggers.receiver)
        self._observed = DebugSettings()
        self._switches = Switches()
        self._timer: asyncio.TimerHandle | None = None

    def apply(self, observed: DebugSettings) -> None:
        """Adopt the settings of the latest record."""
        if observed != self._observed:
            self._observed = observed
            self._follow_switches()

    def close(self) -> None:
        """Stop, and write the remaining events."""
        if self._timer is not None:
            self._timer.cancel()
        self._events.close()

    def _follow_switches(self) -> None:
        now_s = time.time()
        before, self._switches = self._switches, self._observed.at(now_s)
        self._apply(before, self._switches)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end_s = self._observed.next_end(now_s)
        if end_s is not None:
            self._timer = self._loop.call_later(min(_MAX_S, max(0.01, end_s - now_s)), self._follow_switches)

    def _apply(self, before: Switches, now: Switches) -> None:
        self._loggers.apply(now.levels)
        if now.wants_events:
            self._events.open()
        if any(now.shares.values()):
            self._engine.event_loggers.open()
        if now.shares != before.shares:
            event(log, "tuples.sampled", shares=dict(now.shares))
            self._sampler.apply(now)
        if now.one_in != before.one_in:
            event(log, "trees.traced", one_in=now.one_in)
            self._trace(Tracer(now.one_in, self._events) if now.one_in else None)
        if before.wants_events and not now.wants_events:
            closing = self._loop.run_in_executor(None, self._events.close)
            closing.add_done_callback(lambda _: self._open_again())

    def _open_again(self) -> None:
        """Write events if they are wanted again: ``open`` does nothing while the file is being closed."""
        if self._switches.wants_events:
            self._events.open()

    def _trace(self, tracer: Tracer | None) -> None:
        self._engine.tracer = tracer
        for executor in self._engine.executors:
            executor.tracer = tracer
            for task in executor.tasks:
                follow_collector(task, tracer)
