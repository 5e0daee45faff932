"""The progress of a source's task that reads several partitions: the least of those that are not read to their ends.

The newest event time of a partition says nothing of the others: a backlog may be read one partition after the other.
So a partition *counts*, and holds the progress back at the newest event time that was emitted of it,

*   from its assignment until its position has reached the end that it had when it was looked at last, and
*   with an idle timeout, until nothing has come of it for so long, if it may still grow.

A partition whose messages pass no filter before the event times may be behind its end forever, and give none. It does
not count once it has reached the end that it had when that began, and has given no time for the idle timeout, or for
``TIMELESS_MS``. What follows was written later.

**Moves.** A task that gets a partition may bring older elements than its progress says. It begins ANEW: those who wait
for it forget what it has told, until the partition is read. A task that loses one to another stands still meanwhile.

**Ends.** A position that has reached an end says nothing if the end is old: a backlog may be behind it. So the progress
is only raised when ``set_ends`` tells of a look at the ends of all partitions, a few times per second. What was emitted
until then was read before the look. A partition that does not count then had nothing more that was older than that.
Where an end is not known, the partition counts; with an idle timeout, until nothing has come of it for so long, unless
it has not reached the end that was known last.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tupletree.keyed.settings import MAX_TIME_MS
from tupletree.keyed.watermark import ABSENT, ALIVE, ANEW, BEFORE_ALL

TIMELESS_MS: Final = 10_000
"""The time without event times after which a partition that is read may count as one without; or the idle timeout."""


HANDOVER_MS: Final = 5_000
"""The time for which a task that has lost a partition to another stands still: the other one may take so long to say
that it begins anew."""
START_MS: Final = 1_000
"""The same after the start of a task whose partitions may have been those of another one before."""


class _Partition:
    """State of a partition, most of it as of the last look.

    Attributes:
        newest: its newest event time. ``has_come``: an event time has come, newer or not.
        end: where it ended; infinity if that was never known. ``is_end_known``: it was at the last look.
        silent_ms: for how long no event time has come. ``timeless_ms``: and for how long it was not at its end besides.
        goal: its end when ``timeless_ms`` began.
    """

    __slots__ = (
        "end", "goal", "has_come", "is_assigned", "is_end_known", "newest", "position", "silent_ms", "timeless_ms"
    )  # fmt: skip

    def __init__(self, end: float, *, is_assigned: bool) -> None:
        self.newest = BEFORE_ALL
        self.has_come = False
        self.position = -1
        self.end = end
        self.is_end_known = end < math.inf
        self.silent_ms = self.timeless_ms = 0
        self.goal = math.inf
        self.is_assigned = is_assigned

    def set_end(self, end: float) -> None:
        self.is_end_known = end < math.inf
        if self.is_end_known:
            self.end = end

    def look(self, position: int, elapsed_ms: int) -> None:
        self.position = position
        self.silent_ms = 0 if self.has_come else self.silent_ms + elapsed_ms
        if self.has_come or position >= self.end:
            self.timeless_ms, self.goal = 0, math.inf
        else:
            self.timeless_ms += elapsed_ms
            self.goal = min(self.goal, self.end)
        self.has_come = False

    def counts(self, timeout_ms: int) -> bool:
        """Return true if it holds the progress back. ``timeout_ms``: 0 if there is no idle timeout."""
        if self.position >= self.goal and self.timeless_ms >= (timeout_ms or TIMELESS_MS):
            return False
        if not self.is_end_known and (not timeout_ms or self.end == math.inf):
            return not timeout_ms or self.silent_ms < timeout_ms
        return self.position < self.end or self.silent_ms < timeout_ms


class PartitionTimes:
    """A SourceProgress. ``idle_timeout_ms``: None for no time, as the end of a partition is known.

    With a timeout, those who wait for the progress take a task without new progress for idle. So a task that brings
    elements while one of its partitions is further behind says that it is ALIVE.

    Attributes:
        newest: a list of one event time, which those who give elements their times raise, to the newest of late.
    """

    def __init__(self, idle_timeout_ms: int | None) -> None:
        self.newest = [BEFORE_ALL]  # of the partition that is being emitted
        self._idle_timeout_ms = idle_timeout_ms or 0
        self._has_timeout = idle_timeout_ms is not None
        self._partitions: dict[str, _Partition] = {}
        self._selected: str | None = None
        self._positions: Callable[[], Mapping[str, int]] | None = None  # None: the spout tells of no partitions
        self._has_read_all: Callable[[], bool] = bool
        self._is_known = False  # what the share consists of
        self._has_ended = False
        self._ticked_ms: int | None = None  # at the last look
        self._time = BEFORE_ALL  # the progress
        self._told = BEFORE_ALL  # the progress before a partition was assigned
        self._is_anew = self._is_anew_told = False  # what was told holds no longer
        self._are_moved = False
        self._pause_ms = 0  # for so long the progress stands still, from the next look
        self._paused_until_ms = -math.inf
        self._is_paused = False
        self._sent = BEFORE_ALL
        self._has_come = False  # an event time, since the last report

    # The spout's side: see SourceProgress

    def follow(
        self,
        positions: Callable[[], Mapping[str, int]],
        has_read_all: Callable[[], bool],
        *,
        is_complete: bool,
        are_moved: bool = False,
    ) -> None:
        self._positions = positions
        self._has_read_all = has_read_all
        self._are_moved = self._is_anew = are_moved
        if are_moved:
            self._pause_ms, self._is_paused = START_MS, True
        if is_complete:
            self._idle_timeout_ms = 0

    def assign(self, partition: str) -> None:
        known = self._partitions.get(partition)
        self._deselect(partition)
        self._is_anew |= self._time > BEFORE_ALL
        self._told, self._time = max(self._told, self._time), BEFORE_ALL
        self._partitions[partition] = _Partition(math.inf if known is None else known.end, is_assigned=True)

    def revoke(self, partition: str) -> None:
        self._deselect(partition)
        self._partitions.pop(partition, None)
        self._is_known = False  # others may come instead; a task that has lost its connection is not absent
        if self._are_moved:
            self._pause_ms, self._is_paused = HANDOVER_MS, True

    def restart(self) -> None:
        self._partitions.clear()
        self._selected = None
        self.newest[0] = self._time = self._told = self._sent = BEFORE_ALL
        self._is_known = self._has_come = False

    def select(self, partition: str) -> None:
        if partition == self._selected:
            return
        self._keep_newest()
        self._selected = partition

    def set_ends(self, ends: Mapping[str, float] | None, now_ms: int) -> None:
        self._is_known = ends is not None
        for name, partition in list(self._partitions.items()):
            if ends is not None and name not in ends and not partition.is_assigned:
                del self._partitions[name]
            else:
                partition.set_end(math.inf if ends is None else ends.get(name, -math.inf))
        for name, end in (ends or {}).items():
            if name not in self._partitions:
                self._partitions[name] = _Partition(end, is_assigned=False)
        self._look({} if self._positions is None else self._positions(), now_ms)
        counting = [one.newest for one in self._partitions.values() if one.counts(self._idle_timeout_ms)]
        if not self._is_paused:
            self._time = max(self._time, min(counting) if counting else max(self._told, self._newest_of_all()))

    # The executor's side

    def report(self) -> Sequence[int]:
        if self._has_ended:
            return [MAX_TIME_MS]
        if self._positions is None:
            return [] if self.newest[0] == BEFORE_ALL else [self.newest[0]]
        state = self._state()
        if not self._is_anew:
            return state
        if self._is_anew_told and state[0] != BEFORE_ALL:
            self._is_anew = self._is_anew_told = False
            return state
        self._is_anew_told = True
        return [ANEW, *state]  # until there is progress: a task that starts again has not heard

    def end(self) -> None:
        self._has_ended = True

    # Internals

    def _state(self) -> Sequence[int]:
        is_absent = self._has_read_all() if self._partitions else self._is_known and not self._is_paused
        if not is_absent:
            return [self._time, ALIVE] if self._is_only_alive() else [self._time]
        self._keep_newest()
        time = max(self._told, self._time, self._newest_of_all())
        return [ABSENT] if time == BEFORE_ALL else [time, ABSENT]  # each time: a task that starts again has not heard

    def _is_only_alive(self) -> bool:
        """Return true if elements have come since the last report, and the progress is as it was."""
        if not self._has_timeout:
            return False
        self._keep_newest()
        has_come, self._has_come = self._has_come, False
        is_new, self._sent = self._time != self._sent, self._time
        return has_come and not is_new

    def _newest_of_all(self) -> int:
        return max((one.newest for one in self._partitions.values()), default=BEFORE_ALL)

    def _look(self, positions: Mapping[str, int], now_ms: int) -> None:
        """Count for how long partitions are silent. A task that stood still itself cannot know: see Watermark.tick."""
        self._keep_newest()
        before_ms = now_ms if self._ticked_ms is None else self._ticked_ms
        self._ticked_ms = now_ms
        if self._pause_ms:
            self._paused_until_ms = max(self._paused_until_ms, now_ms + self._pause_ms)
            self._pause_ms = 0
        self._is_paused = now_ms < self._paused_until_ms
        elapsed_ms = min(now_ms - before_ms, max(1, (self._idle_timeout_ms or TIMELESS_MS) // 2))
        for name, partition in self._partitions.items():
            partition.look(positions.get(name, partition.position), elapsed_ms)

    def _keep_newest(self) -> None:
        """Take the times that have come of the selected partition since the last call."""
        newest, self.newest[0] = self.newest[0], BEFORE_ALL
        if newest > BEFORE_ALL and self._selected is not None:
            self._has_come = True
            if (partition := self._partitions.get(self._selected)) is not None:
                partition.newest = max(partition.newest, newest)
                partition.has_come = True

    def _deselect(self, partition: str) -> None:
        if partition == self._selected:
            self._selected = None
            self.newest[0] = BEFORE_ALL
