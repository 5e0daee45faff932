"""Placement by traffic: executors whose components send each other much come into one worker.

The even scheduler (scheduler.py) decides which slots are used and how many executors each gets. Here executors change
places with executors of other slots, where that keeps tuples within a worker. A swap must fulfil all of these:

* Both slots are *free to change*: workers that keep running are left alone.
* The measured traffic within workers grows. Nimbus does not know which grouping a stream has, so two measures count.
  *Shuffled*: each task sends to all tasks of the receiver alike, as with a shuffle or fields grouping. *Local*: a task
  sends to the tasks of its own worker if there are any, as with a local-or-shuffle grouping. Their sum must grow, and
  neither may shrink.
* No worker gets busier than 1.1 times the busiest worker of the even placement, by the measured processor time.

So the number of executors per slot stays, and the traffic between workers is never higher than that of the even
placement. The best swap is made first, ties go to the lowest executors: the same input gives the same output. A
topology with very many slots and components is compared in part only (``MAX_COMPARISONS``): with many workers little of
a shuffled stream can stay in one.
"""

from __future__ import annotations  # pure

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tupletree.parallelism import task_ranges

from ..statistics.counters import Figures
from ..statistics.topology_statistics import TopologyStatistics
from .scheduler import Executor, Placement, Slot

MAX_COMPARISONS: Final = 5_000
"""The maximum number of swaps that are compared for one placement."""

WINDOW_S: Final = 600.0
MAX_BUSIER: Final = 1.1
_LEAST_GAIN: Final = 1e-6
"""The share of all traffic below which a gain is an error of rounding."""


@dataclass(frozen=True)
class Traffic:
    """The traffic of a topology in the last minutes.

    ``tuples``: tuples by sending and receiving component. ``busy_s``: seconds spent executing, by component.
    """

    tuples: Mapping[tuple[str, str], float] = field(default_factory=dict)
    busy_s: Mapping[str, float] = field(default_factory=dict)


class Shares(NamedTuple):
    """The traffic that stays within workers, by both measures."""

    shuffled: float
    local: float

    def __sub__(self, other: Shares) -> Shares:
        return Shares(self.shuffled - other.shuffled, self.local - other.local)


def measured(statistics: TopologyStatistics, components: Iterable[str], now_s: float) -> Traffic:
    """Return the traffic between the components of a topology, as its workers have reported it."""
    tuples: defaultdict[tuple[str, str], float] = defaultdict(float)
    busy_s: dict[str, float] = {}
    for component in components:
        figures = Figures(statistics.counts(component, WINDOW_S, now_s))
        busy_s[component] = figures.counts.get("execute_s", 0.0)
        for source in figures.inputs():
            tuples[source[0], component] += figures.input(source, "executed")
    return Traffic(dict(tuples), busy_s)


def bring_together(
    placement: Placement,
    changing: Collection[Slot],
    tasks: Mapping[str, int],
    traffic: Traffic,
    first_task: int = 1,
    kinds: Mapping[str, object] | None = None,
) -> Placement:
    """Return the placement after the swaps that keep more traffic within workers.

    ``kinds``: of each component; only executors of equal kinds change places, such as those with equal needs of
    resources, so that each worker needs what it did. None: all may.
    ``changing``: the slots that may change. ``tasks``: the number of tasks per component, from which, and from the
    lowest task id, the components of executors follow.
    """
    slots = sorted(slot for slot in changing if slot in placement)
    if len(slots) < 2 or not any(traffic.tuples.values()):
        return placement
    workers = _Workers(placement, tasks, traffic, first_task, kinds)
    left = MAX_COMPARISONS
    while swaps := list(itertools.islice(workers.swaps(slots), left)):
        left -= len(swaps)
        gains = [(workers.gain(*swap), swap) for swap in swaps]
        best, swap = max(gains, key=lambda one: one[0])  # the first of equal ones
        if best <= _LEAST_GAIN * workers.total:
            break
        workers.exchange(*swap)
    return {slot: tuple(sorted(run)) for slot, run in workers.runs.items()}


def within_workers(placement: Placement, tasks: Mapping[str, int], traffic: Traffic) -> Shares:
    """Return the traffic that stays within workers."""
    workers = _Workers(placement, tasks, traffic)
    shares = [workers.shares(workers.counts[slot]) for slot in placement]
    return Shares(sum(one.shuffled for one in shares), sum(one.local for one in shares))


def busiest(placement: Placement, tasks: Mapping[str, int], traffic: Traffic) -> float:
    """Return the measured seconds of the executors of the busiest worker."""
    workers = _Workers(placement, tasks, traffic)
    return max((workers.load(workers.counts[slot]) for slot in placement), default=0.0)


_Counts = Mapping[str, int]  # tasks of a worker by component
_Swap = tuple[Slot, Executor, Slot, Executor]


class _Workers:
    """A placement that changes, with the tasks of each component in each worker."""

    def __init__(
        self,
        placement: Placement,
        tasks: Mapping[str, int],
        traffic: Traffic,
        first_task: int = 1,
        kinds: Mapping[str, object] | None = None,
    ) -> None:
        self._component_kinds = kinds
        self.runs: dict[Slot, list[Executor]] = {slot: list(run) for slot, run in placement.items()}
        self._tasks = tasks
        self._busy_s = traffic.busy_s
        self._edges = [
            (sender, receiver, tuples)
            for (sender, receiver), tuples in sorted(traffic.tuples.items())
            if tuples > 0 and sender != receiver and sender in tasks and receiver in tasks
        ]
        self.total = sum(tuples for _, _, tuples in self._edges)
        first_tasks = {ids.start: name for name, ids in task_ranges(tasks, first_task).items()}
        starts = sorted(first_tasks)
        self._component = {
            executor: first_tasks[max(start for start in starts if start <= executor[0])]
            for run in placement.values()
            for executor in run
        }
        self.counts = {slot: self._counted(run) for slot, run in self.runs.items()}
        self._max_load = MAX_BUSIER * max((self.load(one) for one in self.counts.values()), default=0.0)

    def shares(self, counts: _Counts) -> Shares:
        """Return the traffic that stays within a worker."""
        shuffled = local = 0.0
        for sender, receiver, tuples in self._edges:
            sent = tuples * counts.get(sender, 0) / self._tasks[sender]
            received = counts.get(receiver, 0)
            shuffled += sent * received / self._tasks[receiver]
            local += sent if received else 0.0
        return Shares(shuffled, local)

    def load(self, counts: _Counts) -> float:
        """Return the measured seconds of a worker's tasks."""
        return sum(self._busy_s.get(name, 0.0) * count / self._tasks[name] for name, count in counts.items())

    def swaps(self, slots: Sequence[Slot]) -> Iterator[_Swap]:
        """Iterate over the possible swaps. Of executors that are alike, only the lowest changes places."""
        kinds = {slot: self._kinds(self.runs[slot]) for slot in slots}
        for one, other in itertools.combinations(slots, 2):
            for kind, executor in kinds[one].items():
                for other_kind, other_executor in kinds[other].items():
                    if kind != other_kind and self._may_swap(kind[0], other_kind[0]):
                        yield one, executor, other, other_executor

    def _may_swap(self, component: str, other: str) -> bool:
        kinds = self._component_kinds
        return kinds is None or kinds[component] == kinds[other]

    def gain(self, one: Slot, executor: Executor, other: Slot, other_executor: Executor) -> float:
        """Return the traffic that a swap keeps within the two workers, or 0 if it is not permitted."""
        before = [self.counts[one], self.counts[other]]
        after = [
            self._moved(before[0], other_executor, executor),
            self._moved(before[1], executor, other_executor),
        ]
        if any(self.load(counts) > self._max_load for counts in after):
            return 0.0
        gains = [self.shares(new) - self.shares(old) for new, old in zip(after, before, strict=True)]
        shuffled, local = sum(gain.shuffled for gain in gains), sum(gain.local for gain in gains)
        least = -_LEAST_GAIN * self.total
        return shuffled + local if shuffled >= least and local >= least else 0.0

    def exchange(self, one: Slot, executor: Executor, other: Slot, other_executor: Executor) -> None:
        """Let two executors change places."""
        for slot, leaves, comes in ((one, executor, other_executor), (other, other_executor, executor)):
            self.runs[slot].remove(leaves)
            self.runs[slot].append(comes)
            self.counts[slot] = self._counted(self.runs[slot])

    def _kinds(self, run: Iterable[Executor]) -> dict[tuple[str, int], Executor]:
        """Return the lowest executor of each component and number of tasks."""
        found: dict[tuple[str, int], Executor] = {}
        for executor in sorted(run):
            found.setdefault((self._component[executor], _size(executor)), executor)
        return found

    def _counted(self, run: Iterable[Executor]) -> dict[str, int]:
        counts: defaultdict[str, int] = defaultdict(int)
        for executor in run:
            counts[self._component[executor]] += _size(executor)
        return dict(counts)

    def _moved(self, counts: _Counts, comes: Executor, leaves: Executor) -> _Counts:
        after = dict(counts)
        after[self._component[leaves]] -= _size(leaves)
        after[self._component[comes]] = after.get(self._component[comes], 0) + _size(comes)
        return after


def _size(executor: Executor) -> int:
    return executor[1] - executor[0] + 1
