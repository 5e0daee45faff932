"""Load of receiving tasks, and the shares of a shuffle that follow from it.

The load of a task is a time: how long a tuple that arrives now waits before it is executed. ``LoadMeter`` estimates it
where the tuples wait. Whoever shuffles hears of it 50 to 500 ms later, and ``LoadShares`` decides how many of its turns
each task takes:

*   All of them, if tuples wait there about as long as at the others. So tasks that are equally fast take turns.
*   Fewer, the longer they wait: a task that is too slow is relieved before it stands still, and is not idle either.
*   Where they wait very long, half as many as before, also when all of them are executed: then the share grows again.
    A sender that knows a task as free sends until it hears otherwise, at a high rate more than a slow task can execute
    in minutes.

A known load falls as time passes, as if nobody sent anything. So a task of which nothing is heard is tried again.
"""

from __future__ import annotations  # pure

from collections.abc import Container, Mapping, Sequence

from ..core.routing import WHOLE, Shares
from .locality import Locality

SLACK_S = 0.05
MAX_RATIO = 2.0
"""A task is loaded if tuples wait there more than ``MAX_RATIO`` times as long as at the others, and ``SLACK_S``."""

BASE_PART = 4
"""The others are represented by the task for which one in so many of all tasks has less load."""

MAX_EXCESS = 4.0
"""Where nearly all tasks are slow or stand still, what is permitted is no more than so many times what it would be if
the least loaded task represented the others: the few that are fast would get no more than the rest."""

HALVING = 4.0
"""A wait so many times as long as what is permitted halves the share."""

DOUBLING_S = 0.5
MAX_DOUBLINGS = 8
"""More than the smallest part needs to be whole. An executor can do nothing for days, and no power is that large."""

MAX_WAIT_S = 30.0
"""Longest wait that is believed: nothing is heard of a task for so long at most before it is tried again."""

HALVED_S = 0.05
"""How long rows took counts half after so much time in which others have ended. By time: slow rows soon show."""


class LoadMeter:
    """Estimate of the wait in front of an executor, from the rows that wait and those that it has executed.

    Rows that wait are counted with the mean time of a row while there were any, less the time since a row ended last,
    which has passed of it. If that is longer, a call hangs, or the process gets no processor, and the wait is at least
    as long. It is not as long for each row that waits: a call can be for many rows, which end together.

    The mean is that of rows, not that of samples: a single row would count like a thousand.
    """

    def __init__(self, now_s: float) -> None:
        self._busy_s = 0.0  # lately, and the rows that have ended in this time
        self._rows = 0.0
        self._done = 0
        self._since_s = now_s  # when a row ended last, or the first began to wait
        self._was_busy = False

    def sample(self, waiting: int, done: int, now_s: float) -> float:
        """Return the wait in seconds, at most ``MAX_WAIT_S``. ``done``: the rows executed since the start."""
        count = done - self._done
        if count and self._was_busy:
            self._learn(count, now_s - self._since_s, is_idle=waiting <= 0)
        if count or not self._was_busy:
            self._since_s = now_s
        self._done = done
        self._was_busy = waiting > 0
        if waiting <= 0:
            return 0.0
        passed_s = now_s - self._since_s
        row_s = self._busy_s / self._rows if self._rows else 0.0
        return min(MAX_WAIT_S, max(waiting * row_s - passed_s, passed_s))

    def _learn(self, count: int, elapsed_s: float, is_idle: bool) -> None:
        """Take in how long rows took: not longer than that, if the executor is idle since an unknown time."""
        if is_idle and elapsed_s * self._rows >= count * self._busy_s:
            return
        kept = 0.5 ** (elapsed_s / HALVED_S)
        self._busy_s = kept * self._busy_s + elapsed_s
        self._rows = kept * self._rows + count


class LoadShares:
    """The shares of the tasks that a shuffle chooses among, ascending as in ``shares``. Time is an argument."""

    def __init__(self, tasks: Sequence[int], shares: Shares, now_s: float, locality: Locality | None = None) -> None:
        """``locality``: the preference for tasks in this worker; None: there is none."""
        self.tasks = tasks
        self._locality = locality
        self._shares = shares
        self._parts = [1.0] * len(tasks)  # of its turns that each task takes when it is not loaded
        self._loaded: set[int] = set()  # positions of those that were halved and have been loaded since
        self._updated_s = now_s

    def update(self, waits_s: Mapping[int, float], closed: Container[int], now_s: float) -> None:
        """Set the shares. ``waits_s``: the loads that are known; ``closed``: the tasks that must not be fed."""
        growth = 2 ** min(MAX_DOUBLINGS, max(0.0, now_s - self._updated_s) / DOUBLING_S)
        self._updated_s = now_s
        is_plain = self._locality is None and self._shares.is_even
        if is_plain and not (waits_s or closed or self._loaded) and min(self._parts) == 1.0:
            return  # nearly always
        waits = [waits_s.get(task, 0.0) for task in self.tasks]
        left_out = frozenset(at for at, task in enumerate(self.tasks) if task in closed)
        if self._locality is not None:
            left_out |= self._locality.far(waits, left_out)
        of_open = sorted(wait_s for at, wait_s in enumerate(waits) if at not in left_out)
        if not of_open:  # only those send that wait for nobody, as along back edges
            left_out, of_open = frozenset(), sorted(waits)
        limit_s = min(_limit_s(of_open[(len(of_open) - 1) // BASE_PART]), MAX_EXCESS * _limit_s(of_open[0]))
        parts = [self._part(at, wait_s / limit_s, growth) for at, wait_s in enumerate(waits)]
        free = [0.0 if at in left_out else part for at, part in enumerate(parts)]
        largest = max(free)
        self._shares.set([round(WHOLE * part / largest) for part in free])

    def _part(self, at: int, load: float, growth: float) -> float:
        """Return the part of its turns that a task takes now. ``load``: its wait, in times of what is permitted."""
        if load > HALVING:
            if at not in self._loaded:
                self._loaded.add(at)
                self._parts[at] = max(1 / WHOLE, self._parts[at] / 2)
        elif load <= 1:
            if at not in self._loaded:
                self._parts[at] = min(1.0, self._parts[at] * growth)
            self._loaded.discard(at)
        return self._parts[at] / max(1.0, load) ** 2


def _limit_s(wait_s: float) -> float:
    """Return the wait that is permitted where tuples wait so long at the others."""
    return MAX_RATIO * wait_s + SLACK_S
