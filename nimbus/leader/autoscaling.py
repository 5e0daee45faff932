"""Decisions on the numbers of executors and workers of a topology, from its load over the last minutes.

    more executors    the busiest thread of a bolt was busy for 80% of the last minute, 60% while the lag of a source
                      grows, or the bolt was congested for half of it, and no bolt behind it is congested
    fewer executors   at no time of the last ten minutes had the bolt work for half of the threads that it would keep,
                      and the last change did not give it these for congestion

A minute and ten minutes stand for ``topology.autoscale.up.secs`` and ``topology.autoscale.down.secs``. A bolt gets as
many executors as leave its threads busy for 60% of the time, at most twice as many, and loses at most half of them.
Between 50% and 80% nothing changes, so that a decision is not taken back while the load is steady.

Executors that share the run loop of a worker gain by more workers alone: such a bolt gets no more executors than
there are workers, which are raised with it up to ``topology.autoscale.max.workers``. If several of them are in one
worker, as a program may say, more workers come first: they may suffice.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from .autoscale_settings import Bounds, Settings
from .load_history import Load, Moment, growing_lag, mean

BUSY: Final = 0.8
LAGGING_BUSY: Final = 0.6
AIM: Final = 0.6
IDLE: Final = 0.5
CONGESTED: Final = 0.5
WAITED: Final = "more tuples waited"
"""The beginning of the reason for more executors without a busy thread."""
_ROUNDING: Final = 1e-9
_COMPLETE: Final = 0.9  # of a time, as readings do not come to the second


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a topology that a decision needs beside its load.

    Attributes:
        workers: those wanted; ``running_workers``: those that have a slot.
        free_slots: those that the topology may use; ``no_slot``: the clause that says that there are none.
        consumers: the bolts behind each component.
        own_threads: components whose executors have threads of their own.
        since_change_s: the time since the last change by ``topology.autoscale``.
        floors: the executors that the last change gave a bolt for which tuples waited. It does not lose them: it may
            work elsewhere, as an AsyncBolt does, and then its threads say nothing about its need.
        obstacle: the reason why nothing may be changed now; "": it may.
    """

    executors: Mapping[str, int]
    tasks: Mapping[str, int]
    workers: int = 1
    running_workers: int = 1
    free_slots: int = 0
    no_slot: str = "no slot is free"
    consumers: Mapping[str, Collection[str]] = field(default_factory=dict)
    own_threads: Collection[str] = frozenset()
    since_change_s: float = math.inf
    floors: Mapping[str, int] = field(default_factory=dict)
    obstacle: str = ""


class Scaling(NamedTuple):
    """The executors of one component, those that its load calls for, and why.

    ``is_growing``: it is to have more executors, or more workers for as many.
    """

    component: str
    executors: int
    wanted: int
    bounds: Bounds
    busy: float
    demand: float
    reason: str
    is_growing: bool = False
    is_held: bool = False  # it needs more, and may not have them


@dataclass(frozen=True, slots=True)
class Change:
    """A change to make now. ``component`` "": of the workers alone."""

    component: str
    executors_before: int
    executors: int
    workers_before: int
    workers: int
    reason: str

    @property
    def sentence(self) -> str:
        parts = []
        if self.component:
            parts.append(f"'{self.component}' gets {_executors(self.executors)} instead of {self.executors_before}")
        if self.workers != self.workers_before:
            parts.append(f"the topology gets {_workers(self.workers)} instead of {self.workers_before}")
        return f"{' and '.join(parts)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The numbers that the load of a topology calls for. ``wanted_workers``: however many slots are free."""

    scalings: Sequence[Scaling]
    workers: int
    wanted_workers: int
    change: Change | None
    sentence: str
    held: str = ""  # why the load calls for more, and the bounds, the tasks or the slots do not permit it


def outlook(settings: Settings, facts: Facts, moments: Sequence[Moment]) -> Outlook:
    """Return what the load calls for, and the change to make now."""
    observed_s = sum(one.span_s for one in moments)
    recent = _last(moments, settings.up_s)
    why_not = facts.obstacle
    if not why_not and observed_s < _COMPLETE * settings.up_s:
        why_not = f"its load was observed for {observed_s:.0f} s of {settings.up_s:.0f} s"
    if why_not:
        scalings = [_unchanged(facts, one, _bounds(settings, facts, one), recent, why_not) for one in settings.bounds]
        return Outlook(scalings, facts.workers, facts.workers, None, f"nothing is changed: {why_not}")
    is_long = observed_s >= _COMPLETE * settings.down_s
    peaks = _chunks(moments, settings.up_s / 2) if is_long else []
    scalings = [_scaling(settings, facts, one, recent, peaks) for one in settings.bounds]
    workers = _wanted_workers(settings, facts, scalings, peaks)
    change = _change(settings, facts, scalings, workers)
    if change is None:
        return Outlook(scalings, facts.workers, workers, None, "nothing is changed: the load is within the thresholds")
    if isinstance(change, str):
        return Outlook(scalings, facts.workers, workers, None, f"nothing is changed: {change}", held=change)
    left_s = settings.cooldown_s - facts.since_change_s
    if left_s > 0:
        sentence = f"nothing is changed for another {math.ceil(left_s)} s, the cool-down; then {change.sentence}"
        return Outlook(scalings, facts.workers, workers, None, sentence)
    return Outlook(scalings, facts.workers, workers, change, change.sentence)


def without_room(found: Outlook, lack: str) -> Outlook:
    """Return an outlook whose change has to wait, as the cluster lacks something for it."""
    if found.change is None:
        return found
    held = f"there is no room for this: {found.change.sentence}; {lack}"
    return replace(found, change=None, sentence=f"nothing is changed: {held}", held=held)


def _last(moments: Sequence[Moment], seconds: float) -> Sequence[Moment]:
    return [one for one in moments if one.at_s > moments[-1].at_s - seconds]


def _chunks(moments: Sequence[Moment], seconds: float) -> list[list[Moment]]:
    """Part the moments into spans of about ``seconds``, the newest first."""
    chunks: list[list[Moment]] = []
    for one in reversed(moments):
        if not chunks or one.at_s <= chunks[-1][0].at_s - seconds:
            chunks.append([])
        chunks[-1].append(one)
    return chunks


def _bounds(settings: Settings, facts: Facts, component: str) -> Bounds:
    given = settings.bounds[component]
    return Bounds(given.min, min(given.max, facts.tasks.get(component, given.max)))


def _unchanged(facts: Facts, component: str, bounds: Bounds, recent: Sequence[Moment], reason: str) -> Scaling:
    load = mean(recent, component) if recent else Load()
    count = facts.executors.get(component, 0)
    return Scaling(component, count, count, bounds, load.busiest, load.demand, reason)


def _scaling(
    settings: Settings, facts: Facts, component: str, recent: Sequence[Moment], peaks: Sequence[Sequence[Moment]]
) -> Scaling:
    count, bounds = facts.executors.get(component, 0), _bounds(settings, facts, component)
    if not count:
        return _unchanged(facts, component, bounds, recent, "the topology has no such component")
    if not bounds.min <= count <= bounds.max:
        outside = f"{_executors(count)} are outside {bounds.min} to {bounds.max}, as somebody has set them"
        return _unchanged(facts, component, bounds, recent, outside)
    load = mean(recent, component)
    why = _overload(settings, facts, component, recent, load)
    if why:
        more = _more(settings, facts, component, bounds, load)
        if more is None:
            why += f", and {_why_no_more(settings, facts, component, bounds, count)}"
            return Scaling(component, count, count, bounds, load.busiest, load.demand, why, is_held=True)
        return Scaling(component, count, more, bounds, load.busiest, load.demand, why, is_growing=True)
    wanted = _fewer(settings, facts, component, bounds, peaks) if growing_lag(recent) is None else count
    up, down = _seconds(settings.up_s), _seconds(settings.down_s)
    if wanted < count:
        why = f"at no time of the last {down} did its work fill half of {_threads(wanted)}"
    else:
        why = f"its busiest thread was busy for {load.busiest:.0%} of the last {up}"
    return Scaling(component, count, wanted, bounds, load.busiest, load.demand, why)


def _overload(settings: Settings, facts: Facts, component: str, recent: Sequence[Moment], load: Load) -> str:
    """Return the clause that says why a component needs more executors; "" if it does not."""
    if any(mean(recent, one).congested >= CONGESTED for one in facts.consumers.get(component, ()) if one != component):
        return ""  # it waits for the component behind it
    lag, span = growing_lag(recent), _seconds(settings.up_s)
    busy = f"its busiest thread was busy for {load.busiest:.0%} of the last {span}"
    behind = f", and its sources are {lag} messages behind" if lag is not None else ""
    threshold = BUSY if lag is None else LAGGING_BUSY
    if load.busiest >= threshold and load.own >= threshold / 2:
        return busy + behind
    if load.congested >= CONGESTED:
        return f"{WAITED} for it than it takes for {load.congested:.0%} of the last {span}{behind}"
    return ""


def _more(settings: Settings, facts: Facts, component: str, bounds: Bounds, load: Load) -> int | None:
    """Return the executors that an overloaded component is to have; as many as it has if more workers suffice for
    them. None if more of either would not help."""
    count = facts.executors[component]
    most = min(bounds.max, 2 * count)
    if component not in facts.own_threads:
        most = min(most, max(count, _limit(settings, facts)))
    shares = {one: _share(settings, facts, component, one) for one in range(count, most + 1)}
    present = _share_in(facts, component, count, facts.workers)
    better = [one for one in shares if shares[one] < present]
    enough = [one for one in better if load.demand * shares[one] <= AIM]
    return min(enough or better, key=lambda one: (0.0 if enough else shares[one], one), default=None)


def _fewer(settings: Settings, facts: Facts, component: str, bounds: Bounds, peaks: Sequence[Sequence[Moment]]) -> int:
    """Return the executors that would have sufficed in every span of the last minutes; at least half of the present."""
    count = facts.executors[component]
    loads = [mean(one, component) for one in peaks]
    if not loads or any(one.congested > 0 for one in loads):
        return count
    even = _share(settings, facts, component, count)
    for fewer in range(max(bounds.min, math.ceil(count / 2), facts.floors.get(component, 0)), count):
        grows_by = _share(settings, facts, component, fewer) / even
        others = 0.0 if component in facts.own_threads else 1.0
        if all(max(one.own, even * one.demand) * grows_by + others * one.others <= IDLE for one in loads):
            return fewer
    return count


def _share(settings: Settings, facts: Facts, component: str, count: int) -> float:
    """Return the part of the work that falls to the busiest thread once there are as many workers as may be."""
    return _share_in(facts, component, count, max(facts.workers, min(count, _limit(settings, facts))))


def _share_in(facts: Facts, component: str, count: int, workers: int) -> float:
    """Return the part of a component's work that falls to its busiest thread, if its tasks have equal work."""
    tasks = facts.tasks[component]
    of_executor = math.ceil(tasks / count) / tasks
    if component in facts.own_threads:
        return of_executor
    return min(1.0, math.ceil(count / workers) * of_executor)


def _why_no_more(settings: Settings, facts: Facts, component: str, bounds: Bounds, count: int) -> str:
    if count == bounds.max:
        return f"{count} is the most that it may have"
    if component in facts.own_threads or count < _limit(settings, facts):
        return f"its {facts.tasks[component]} tasks give no executor less work if it has more of them"
    return (
        f"each of {_workers(facts.workers)} runs it already: more workers would help, which "
        f"topology.autoscale.max.workers does not permit"
    )


def _limit(settings: Settings, facts: Facts) -> int:
    return max(facts.workers, settings.max_workers or 0)


def _wanted_workers(
    settings: Settings, facts: Facts, scalings: Sequence[Scaling], peaks: Sequence[Sequence[Moment]]
) -> int:
    sharing = [one for one in scalings if one.component not in facts.own_threads]
    if any(one.is_growing for one in scalings):
        grown = max((one.wanted for one in sharing if one.is_growing), default=0)
        return min(_limit(settings, facts), max(facts.workers, grown))
    if settings.max_workers is None or facts.workers > settings.max_workers or not peaks:
        return facts.workers
    shared = max(sum(one.span_s * one.shared for one in part) / sum(one.span_s for one in part) for part in peaks)
    needed = max([settings.min_workers, _ceil(shared / IDLE), *(one.wanted for one in sharing)])
    return min(facts.workers, needed)


def _change(settings: Settings, facts: Facts, scalings: Sequence[Scaling], workers: int) -> Change | str | None:
    """Return the change to make, or the reason why a change that the load calls for cannot be made now."""
    growing = sorted((one for one in scalings if one.is_growing), key=lambda one: -one.busy)
    reason = ""
    for one in growing:
        room = max(facts.running_workers + facts.free_slots, 1)
        is_sharing = one.component not in facts.own_threads
        after = max(facts.workers, min(workers, one.wanted, room)) if is_sharing else facts.workers
        executors = min(one.wanted, max(one.executors, min(after, room))) if is_sharing else one.wanted
        if executors > one.executors:
            return Change(one.component, one.executors, executors, facts.workers, after, one.reason)
        if after > facts.workers:
            return Change("", 0, 0, facts.workers, after, f"'{one.component}' runs in them, and {one.reason}")
        reason = reason or (
            f"'{one.component}' needs {_executors(one.wanted)} in as many workers, as {one.reason}, but {facts.no_slot}"
        )
    if growing:
        return reason
    falling = sorted(
        (one for one in scalings if one.wanted < one.executors), key=lambda one: one.wanted / one.executors
    )
    if falling:
        first = falling[0]
        kept = [one.executors for one in scalings if one is not first and one.component not in facts.own_threads]
        after = min(facts.workers, max([workers, *kept]))
        return Change(first.component, first.executors, first.wanted, facts.workers, after, first.reason)
    if workers < facts.workers:
        why = f"at no time of the last {_seconds(settings.down_s)} did its work fill half of {_workers(workers)}"
        return Change("", 0, 0, facts.workers, workers, why)
    return next((f"'{one.component}' needs more executors, as {one.reason}" for one in scalings if one.is_held), None)


def _ceil(number: float) -> int:
    return math.ceil(number - _ROUNDING)


def _executors(count: int) -> str:
    return f"{count} executor{'' if count == 1 else 's'}"


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s"
