"""The event loggers of a worker: classes of the topology that get the sampled tuples, on a thread of their own.

The tasks put sampled tuples into a queue and continue; tuples that arrive faster than the loggers take them are left
out and counted. The thread begins with the first sampling, and lasts as long as the worker. Without loggers, and until
a stream is sampled, there is neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from tupletree._background_queue import BackgroundQueue
from tupletree._log import event
from tupletree._named_classes import made_of
from tupletree.errors import TupletreeError
from tupletree.hooks import EventLogger, SampledTuple, WorkerContext

KEY: Final = "topology.event.logger.register"
MAX_WAITING: Final = 1000
LINGER_S: Final = 1.0  # how long ``close`` waits for the remaining tuples

Report = Callable[[str, int, BaseException], object]
"""Shows an error of a component and a task to users. Called from any thread."""

log = logging.getLogger(__name__)


class EventLoggers:
    """The loggers of one worker. ``put`` may be called from any thread, ``open`` and ``close`` from one at a time."""

    def __init__(self, loggers: Sequence[EventLogger], context: WorkerContext, report: Report) -> None:
        self._loggers = loggers
        self._context = context
        self._report = report
        self._queue = BackgroundQueue[SampledTuple]("event-loggers", MAX_WAITING, LINGER_S)
        self._failed: set[int] = set()  # the numbers of loggers whose error is reported

    @classmethod
    def named(cls, context: WorkerContext, report: Report) -> EventLoggers:
        """Return those that the configuration names. Raises TopologyError if one cannot be made."""
        return cls(made_of(KEY, context.conf[KEY] or (), EventLogger), context, report)

    @property
    def receiver(self) -> Callable[[SampledTuple], None] | None:
        """The function to call with each sampled tuple; None without loggers."""
        return self.put if self._loggers else None

    def open(self) -> None:
        """Start the thread, which prepares the loggers. Does nothing if it has begun, or without loggers."""
        if self._loggers:
            self._queue.start(self._run)

    def close(self) -> None:
        """Give the waiting tuples to the loggers and close them, as far as they do so within ``LINGER_S``."""
        self._queue.close()

    def put(self, sampled: SampledTuple) -> None:
        """Queue a tuple, or leave it out and count it if the queue is full. Does nothing without loggers."""
        if self._loggers:
            self._queue.put(sampled)

    def _run(self) -> None:
        first = self._context.local_tasks[0]
        place = next(name for name, tasks in self._context.components.items() if first in tasks), first
        self._tell(lambda logger: logger.prepare(self._context.conf, self._context), place)
        while (sampled := self._queue.get()) is not None:
            place = sampled.component_id, sampled.task_id
            self._tell(lambda logger, sampled=sampled: logger.log(sampled), place)  # type: ignore[misc]
            if count := self._queue.take_left_out():
                event(log, "event_loggers.behind", level=logging.WARNING, left_out=count)
        self._tell(lambda logger: logger.close(), place)

    def _tell(self, call: Callable[[EventLogger], object], place: tuple[str, int]) -> None:
        """Call each logger. The first error of each is reported, as one of the component and task of ``place``."""
        for number, logger in enumerate(self._loggers):
            try:
                call(logger)
            except (Exception, SystemExit) as error:
                if number not in self._failed:
                    self._failed.add(number)
                    why = f"event logger {type(logger).__name__} failed: {type(error).__name__}: {error}"
                    reported = TupletreeError(why).with_traceback(error.__traceback__)
                    reported.__cause__ = error
                    self._report(*place, reported)
