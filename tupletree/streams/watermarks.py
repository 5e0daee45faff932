"""Watermarks between components: how far event time has come in each task, sent to all tasks that wait for it.

A task of a keyed operator gets the elements of its own keys alone. So from elements it cannot tell whether a sending
task has nothing for it, or has not come so far. Nor may an element raise the watermark: batches of two streams of one
task come in any order, so that an element of the other stream would be late. Therefore each task of a component whose
elements have event times sends its progress every 200 ms, to every task of the components with timers that follow:

*   the newest event time that it has given, where the operator ``event_time`` runs; in a source that tells of its
    partitions, the least of the newest of those that are not read to their ends (tupletree/keyed/partition_times.py);
*   the smallest of the progress of its own senders, if the elements had their times before;
*   its own watermark, if it has timers itself: all results of earlier times have been emitted. A left or outer join
    subtracts the time for which an element waits for a partner: alone, it is a result when that has passed.

The stream is declared last, and executors flush streams in this order: progress does not overtake elements.

Progress that is not new is no sign of life: a sending task without elements is idle all the same. Four values are no
times: ABSENT of a task that has nothing to bring, and holds nothing back until it sends something else; BEFORE_ALL of a
task that is not absent and knows no time; ANEW of a source's task that has more partitions now, or may have others than
when it was started last, so that what it has sent does not hold any longer; and ALIVE after progress that is not new,
of a source's task that reads one partition while another is further behind: it is not idle, however long that takes.
Those behind it pass that on, and are absent themselves if all of their senders are, and no result is still to come.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any, Final

from tupletree._source_progress import REPORT_EVERY_S
from tupletree.component import TopologyContext
from tupletree.keyed.settings import MAX_EVENT_TIME_MS, MAX_TIME_MS
from tupletree.keyed.watermark import ABSENT, ALIVE, ANEW, BEFORE_ALL, Watermark
from tupletree.outputs import PROGRESS_STREAM
from tupletree.streams.code import Code
from tupletree.streams.layout import TIME
from tupletree.streams.steps import Chain
from tupletree.tuples import Tuple

WATERMARKS: Final = PROGRESS_STREAM
"""The stream of the progress of a component's tasks."""

FIELDS: Final = (TIME,)
INTERVAL_S: Final = REPORT_EVERY_S
END_OF_TIME: Final = MAX_TIME_MS
"""The progress of a task whose input is over."""

ENDING: Final = MAX_EVENT_TIME_MS
"""Progress above this is that of an input that is over, less a lag; no element has such a time. Passed on at once."""

CONF: Final[Mapping[str, Any]] = {"topology.tick.tuple.freq.secs": INTERVAL_S}
"""The configuration of a component that sends its progress."""


class Passing:
    """The progress of a task whose elements had their times before: the smallest of its senders."""

    def __init__(self, context: TopologyContext, idle_timeouts_ms: Mapping[str, int | None]) -> None:
        components = {component for component, stream in context.sources if stream == WATERMARKS}
        senders = {task: component for component in components for task in context.component_tasks(component)}
        own_ms = {task: idle_timeouts_ms.get(component) for task, component in senders.items()}
        self._context = context
        self._watermark = Watermark(senders, 0, None, self._now_ms(), own_ms)
        self._was_alone = False
        self._is_alive = False  # a sender has said so

    def came(self, tup: Tuple) -> bool:
        """Return true if a tuple is an element; otherwise record the progress of its sender."""
        if tup.source_stream != WATERMARKS:
            return True
        time_ms = tup[TIME]
        if time_ms == ABSENT:
            self._watermark.leave(tup.source_task)
            return False
        if time_ms == ALIVE:
            self._watermark.alive(tup.source_task)
            self._is_alive = True
            return False
        if time_ms == ANEW:
            self._watermark.begin_anew(tup.source_task)
            return False
        self._watermark.back(tup.source_task)
        if time_ms > self._watermark.newest.get(tup.source_task, BEFORE_ALL):
            self._watermark.came(tup.source_task, time_ms)
        return False

    def time(self) -> int:
        """Return the progress, or BEFORE_ALL."""
        self._watermark.tick(self._now_ms())
        return self._watermark.value

    def report(self) -> list[int]:
        """Return what to send, in order."""
        time, was_alone = self.time(), self._was_alone
        is_alone = self._was_alone = self._watermark.is_alone
        state = [ABSENT] if is_alone else [ALIVE] if self._is_alive else []
        self._is_alive = False
        return state if time == BEFORE_ALL and not was_alone else [time, *state]

    def end(self) -> None:
        """Do nothing: the senders say when the input is over."""

    def _now_ms(self) -> int:
        return int(self._context.clock() * 1000)


def progress_of(
    chain: Chain, code: Code, context: TopologyContext, idle_timeouts_ms: Mapping[str, int | None]
) -> Passing | Newest:
    """Return the progress of a component of narrow operators. Its code is still to be written."""
    if not chain.gives_times:
        return Passing(context, idle_timeouts_ms)
    newest = Newest()
    code.newest = newest.times
    return newest


class Newest:
    """The progress of a task that gives elements their times: the newest of these."""

    def __init__(self) -> None:
        self.times = [BEFORE_ALL]
        """One item, which the code of the operators raises."""

    def time(self) -> int:
        """Return the progress, or BEFORE_ALL."""
        return self.times[0]

    def report(self) -> list[int]:
        """Return what to send, in order."""
        return [] if self.times[0] == BEFORE_ALL else [self.times[0]]

    def end(self) -> None:
        """Record that no element comes any more."""
        self.times[0] = END_OF_TIME
