"""Load of a topology's bolts over the last minutes, from the counters that its workers report.

A *thread* is what takes turns: the run loop of a worker, or the own loop of an executor that blocks. Executors of a
worker that share its run loop can together be busy for all of the time, and no longer. So a bolt is as busy as the
busiest thread that runs it.

    readings  --difference-->  moments  --mean over some minutes-->  load
"""

from __future__ import annotations  # pure

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

STEP_S: Final = 2.0
"""The time between two readings."""
MAX_MOMENTS: Final = 600
"""Over long times, moments are longer."""

_GROWS_BY: Final = 1.05
_GROWS_MESSAGES: Final = 100


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread that runs tasks by turns. ``is_shared``: the run loop of a worker, not the own loop of an executor."""

    id: Hashable
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of all tasks at one time.

    Attributes:
        at_s: monotonic.
        busy_s: seconds spent executing since the worker started, by task id.
        threads: by task id.
        lags: messages that wait in a source, by spout.
    """

    at_s: float
    busy_s: Mapping[int, float]
    threads: Mapping[int, Thread]
    congested: frozenset[str] = frozenset()
    lags: Mapping[str, int] = field(default_factory=dict)


class Load(NamedTuple):
    """The load of one component.

    ``demand``: threads that its work filled. ``busiest``: share of the time that the busiest of its threads was busy,
    and ``own`` the part of this that it had itself. ``others``: the largest such part that others had. ``congested``:
    share of the time that a task of it was congested.
    """

    demand: float = 0.0
    busiest: float = 0.0
    own: float = 0.0
    others: float = 0.0
    congested: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The load between two readings. ``shared``: threads that all work on shared run loops filled."""

    at_s: float
    span_s: float
    loads: Mapping[str, Load]
    shared: float = 0.0
    lags: Mapping[str, int] = field(default_factory=dict)


def moment(before: Reading, after: Reading, tasks: Mapping[str, Collection[int]]) -> Moment | None:
    """Return the load between two readings; None if a task has no counters, or its worker was restarted.

    ``tasks``: of each component.
    """
    span_s = after.at_s - before.at_s
    own: dict[tuple[str, Thread], float] = {}
    total: dict[Thread, float] = {}
    for component, ids in tasks.items():
        for task in ids:
            if task not in before.busy_s or task not in after.busy_s or after.busy_s[task] < before.busy_s[task]:
                return None
            share = (after.busy_s[task] - before.busy_s[task]) / span_s
            thread = after.threads[task]
            own[component, thread] = own.get((component, thread), 0.0) + share
            total[thread] = total.get(thread, 0.0) + share
    loads = {one: _load(one, own, total, after.congested) for one in tasks}
    shared = sum(share for thread, share in total.items() if thread.is_shared)
    return Moment(after.at_s, span_s, loads, shared, after.lags)


def _load(
    component: str, own: Mapping[tuple[str, Thread], float], total: Mapping[Thread, float], congested: Collection[str]
) -> Load:
    mine = {thread: share for (one, thread), share in own.items() if one == component}
    busiest = max(mine, key=lambda one: (total[one], mine[one]))
    return Load(
        demand=sum(mine.values()),
        busiest=total[busiest],
        own=mine[busiest],
        others=max(total[one] - share for one, share in mine.items()),
        congested=float(component in congested),
    )


def mean(moments: Sequence[Moment], component: str) -> Load:
    """Return the mean load of a component over moments, of which there is at least one."""
    span_s = sum(one.span_s for one in moments)
    parts = [(one.span_s / span_s, one.loads.get(component, Load())) for one in moments]
    return Load(*(sum(weight * load[index] for weight, load in parts) for index in range(len(Load._fields))))


def growing_lag(moments: Sequence[Moment]) -> int | None:
    """Return the messages that wait in the sources whose lag grows from each quarter to the next; None if none does."""
    size = len(moments) // 4
    if not size:
        return None
    first, second, third, last = (_mean_lags(moments[size * part : size * (part + 1)]) for part in range(4))
    grown = [
        one
        for one in first.keys() & second.keys() & third.keys() & last.keys()
        if first[one] < second[one] < third[one] < last[one] > _GROWS_BY * first[one] + _GROWS_MESSAGES
    ]
    return round(sum(last[one] for one in grown)) if grown else None


def _mean_lags(moments: Iterable[Moment]) -> dict[str, float]:
    found: dict[str, list[int]] = {}
    for one in moments:
        for spout, lag in one.lags.items():
            found.setdefault(spout, []).append(lag)
    return {spout: sum(lags) / len(lags) for spout, lags in found.items()}


class LoadHistory:
    """The moments of one topology for as long as its tasks run where they are; oldest first."""

    def __init__(self) -> None:
        self._moments: deque[Moment] = deque(maxlen=MAX_MOMENTS)
        self._before: Reading | None = None
        self._layout: Hashable = None

    @property
    def moments(self) -> Sequence[Moment]:
        return tuple(self._moments)

    def forget(self) -> None:
        """Begin anew: what was measured says nothing about what runs now."""
        self._moments.clear()
        self._before = None

    def add(self, reading: Reading, tasks: Mapping[str, Collection[int]], layout: Hashable, keep_s: float) -> None:
        """Add a reading, and drop what is older than ``keep_s``.

        ``layout``: what the load depends on, such as the numbers of executors. Another one makes the history begin.
        """
        if layout != self._layout:
            self.forget()
            self._layout = layout
        if self._before is None:
            self._before = reading
            return
        if reading.at_s - self._before.at_s < max(0.9 * STEP_S, keep_s / MAX_MOMENTS):
            return
        found = moment(self._before, reading, tasks)
        if found is None:
            self.forget()
        else:
            self._moments.append(found)
        self._before = reading
        while self._moments and self._moments[0].at_s <= reading.at_s - keep_s:
            self._moments.popleft()
