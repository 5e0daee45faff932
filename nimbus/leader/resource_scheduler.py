"""Placement of a topology's executors by the resources that they need: never more than a supervisor has.

A supervisor has a capacity of processor time, memory and named resources, a worker a maximum of memory; none of them is
ever exceeded. Topologies are placed one at a time:

1. A worker that runs keeps its slot and its executors while they fit there.
2. The executors that do not run are placed all or none: a topology runs only if all of it does, and one that waits
   holds no resources that another could use. They come into new workers, beside those that run. If they do not fit
   beside them, the whole topology is placed again.
3. Three attempts are made, and the first that places all is taken:

   * *even*: as many workers as are wanted, or more until they fit, each with the same share of each component. So a
     worker has tasks of all components, and components that talk to each other meet in it. Components that are to be
     kept apart are divided into groups, with workers for each group.
   * *mixed*: worker after worker is filled to its maximum, with components mixed in the same way.
   * *hardest first*: executors with constraints, then those that need named resources, then those that need the most,
     each into the first worker that has room.

Constraints hold for what is placed here, not for what runs already: no machine gets more executors of a component than
its maximum, and no worker gets components that are to be kept apart. New workers come to supervisors in the order of
free_machines.py.

The same input gives the same output, and feeding the output back moves nothing. More capacity can make an attempt fail
that succeeded before, as is so whenever different sizes are packed; with equal needs it cannot.
"""

from __future__ import annotations  # pure

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .free_machines import FreeMachines, most
from .resource_request import Placed, ResourceRequest
from .resources import FIRST_NAMED, MEMORY, ROUNDING, Vector, fits
from .scheduler import Executor, Placement, Slot


def place(request: ResourceRequest) -> Placed:
    """Assign the executors to slots."""
    kept = _kept(request)
    running = {executor for run in kept.values() for executor in run}
    missing = tuple(sorted(executor for executor in request.components if executor not in running))
    if not missing:
        return Placed(kept, ())
    found = _place_all(request, missing, kept)
    if found is not None:
        found = {**kept, **found}
    elif kept:
        found = _place_all(request, sorted(request.components), {})
    if found is None:
        return Placed(kept, missing)
    return Placed({slot: tuple(sorted(found[slot])) for slot in sorted(found)}, ())


def _kept(request: ResourceRequest) -> Placement:
    """Return the workers that stay. One whose executors change is started again, which takes a supervisor."""
    offered = set(request.offered)
    kept = {}
    for slot, run in sorted(request.alive.items()):
        known = tuple(sorted(executor for executor in run if executor in request.components))
        if known and (len(known) == len(run) or slot in offered):
            kept[slot] = known
    return kept


def _place_all(request: ResourceRequest, executors: Sequence[Executor], kept: Placement) -> Placement | None:
    """Return new workers for all of the executors beside ``kept``, or None."""

    def free() -> FreeMachines:
        return FreeMachines(request, executors, kept)

    needs, empty = request.sum(executors), free()
    room = empty.room.values()
    if not all(need <= sum(max(0.0, one[axis]) for one in room) + ROUNDING for axis, need in enumerate(needs)):
        return None
    if any(empty.places(name) < count for name, count in request.limited(request.count(executors))):
        return None
    return (
        _even(request, executors, max(1, request.workers - len(kept)), free)
        or _filled(request, _mixed(request, executors), free())
        or _filled(request, _hardest_first(request, executors), free())
    )


class _Group(NamedTuple):
    """Executors that may share a worker. ``least``: the number of workers below which no machine may have one."""

    executors: Sequence[Executor]
    least: int


def _groups(request: ResourceRequest, executors: Sequence[Executor]) -> list[_Group]:
    """Divide the executors by components that are to be kept apart; into few groups, not always the fewest."""
    constraints = request.constraints
    counts = request.count(executors)
    colors: dict[str, int] = {}
    members: list[set[str]] = []
    for name in sorted(counts, key=lambda one: (-len(constraints.apart.get(one, ())), one)):
        fitting = (number for number, group in enumerate(members) if constraints.may_join(name, group))
        colors[name] = next(fitting, len(members))
        if colors[name] == len(members):
            members.append(set())
        members[colors[name]].add(name)
    runs: list[list[Executor]] = [[] for _ in members]
    for executor in executors:
        runs[colors[request.components[executor]]].append(executor)
    least = [
        max(math.ceil(counts[name] / constraints.per_machine.get(name, counts[name])) for name in group)
        for group in members
    ]
    if constraints.has_one_executor:
        least = [len(run) for run in runs]
    return [_Group(run, number) for run, number in zip(runs, least, strict=True)]


def _shares(groups: Sequence[_Group], count: int) -> list[tuple[Executor, ...]]:
    """Divide each group evenly over workers, ``count`` in all: each group has at least what it needs of them."""
    workers = [one.least for one in groups]
    largest = [(-len(one.executors) / one.least, number) for number, one in enumerate(groups)]
    heapq.heapify(largest)
    for _ in range(count - sum(workers)):
        _, number = heapq.heappop(largest)
        workers[number] += 1
        heapq.heappush(largest, (-len(groups[number].executors) / workers[number], number))
    return [
        tuple(group.executors[number::of]) for group, of in zip(groups, workers, strict=True) for number in range(of)
    ]


def _even(
    request: ResourceRequest, executors: Sequence[Executor], wanted: int, free: Callable[[], FreeMachines]
) -> Placement | None:
    """Spread the executors over ``wanted`` workers, or over more until they fit."""
    limit = min(len(executors), free().slots)
    groups = _groups(request, executors)
    needed = math.ceil((request.sum(executors)[MEMORY] - ROUNDING) / request.worker_max_mb)
    least = sum(one.least for one in groups)
    count = min(max(wanted, needed, least), limit)
    while least <= count:
        if (found := _opened(request, _shares(groups, count), free())) is not None:
            return found
        if count == limit:
            break
        count = min(count + max(1, count // 4), limit)
    return None


def _opened(request: ResourceRequest, runs: Sequence[tuple[Executor, ...]], free: FreeMachines) -> Placement | None:
    """Open a worker for each run: first those of which a machine may have the fewest."""
    placement: Placement = {}
    maximum = request.constraints.per_machine
    counted = [(run, counts, request.limited(counts)) for run in runs for counts in [request.count(run)]]
    if maximum:
        counted.sort(key=lambda one: -max((count / maximum[name] for name, count in one[2]), default=0.0))
    for run, counts, limited in counted:
        needs = request.sum_of(counts)
        slot = free.open(needs, limited) if needs[MEMORY] <= request.worker_max_mb + ROUNDING else None
        if slot is None:
            return None
        placement[slot] = run
    return placement


class _Worker(NamedTuple):
    """A worker that is being filled."""

    slot: Slot
    executors: list[Executor]
    components: set[str]


def _filled(request: ResourceRequest, executors: Sequence[Executor], free: FreeMachines) -> Placement | None:
    """Put each executor into the first worker that may have it, in this order; open a worker where none may."""
    workers: list[_Worker] = []
    memory: list[float] = []
    first: defaultdict[tuple[Vector, str], int] = defaultdict(int)
    constraints = request.constraints
    for executor in executors:
        name, needs = request.components[executor], request.need(executor)
        limited = request.limited({name: 1})
        is_named = constraints.names(name)
        key = needs, name if is_named else ""
        index = first[key]
        while index < len(workers) and not (
            memory[index] + needs[MEMORY] <= request.worker_max_mb + ROUNDING
            and fits(needs, free.room[workers[index].slot.supervisor_id])
            and (not is_named or constraints.may_join(name, workers[index].components))
            and (not limited or free.permits(workers[index].slot.supervisor_id, limited))
        ):
            index += 1
        first[key] = index
        if index < len(workers):
            free.take(workers[index].slot.supervisor_id, needs, limited)
        else:
            slot = free.open(needs, limited) if needs[MEMORY] <= request.worker_max_mb + ROUNDING else None
            if slot is None:
                return None
            workers.append(_Worker(slot, [], set()))
            memory.append(0.0)
        workers[index].executors.append(executor)
        workers[index].components.add(name)
        memory[index] += needs[MEMORY]
    return {one.slot: tuple(one.executors) for one in workers}


def _mixed(request: ResourceRequest, executors: Sequence[Executor]) -> list[Executor]:
    """Return the executors so that each stretch has the same share of each component."""
    by_component: defaultdict[str, list[Executor]] = defaultdict(list)
    for executor in executors:
        by_component[request.components[executor]].append(executor)
    placed = [
        ((number + 0.5) / len(run), name, executor)
        for name, run in by_component.items()
        for number, executor in enumerate(run)
    ]
    return [executor for _, _, executor in sorted(placed)]


def _hardest_first(request: ResourceRequest, executors: Sequence[Executor]) -> list[Executor]:
    largest, constraints = most(request.room, request.axes), request.constraints

    def ease(name: str) -> tuple[float, int, int, float, str]:
        needs = request.needs[name]
        tight = constraints.per_machine.get(name, math.inf), -len(constraints.apart.get(name, ()))
        shares = [need / limit for need, limit in zip(needs, largest, strict=True) if limit > 0]
        return *tight, -sum(1 for need in needs[FIRST_NAMED:] if need > 0), -max(shares, default=0.0), name

    eases = {name: ease(name) for name in request.needs}
    return sorted(executors, key=lambda executor: (eases[request.components[executor]], executor))
