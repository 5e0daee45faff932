"""Where the executors of a topology run: Storm's even scheduler, sticky and deterministic.

A *slot* is a port of a supervisor and holds at most one worker; a topology has at most one worker in a slot. For one
topology at a time:

1. ``total`` slots are to be used: as many as workers are wanted, or as there are.
2. If every executor runs, and ``total`` slots are in use or no more than are could be, nothing moves.
3. Else the executors are to be spread evenly: over k slots, sizes differ by at most one. A slot whose number of living
   executors is one of those sizes, not yet claimed by another slot, stays as it is. The others are given up: a worker
   whose executors change restarts anyway.
4. What has no place now is dealt round-robin, ascending by task id, over the slots in the order of ``interleaved``.

Nobody else's slots are touched. The same input gives the same output, and the output as the next input moves nothing.

After Storm's DefaultScheduler and EvenScheduler, with three differences. A slot whose worker fell silent comes after
all others instead of being left out once: if nothing else is free, its supervisor restarts the worker there. The other
slots of that supervisor come just before it: what nimbus does not hear from may be the machine. When more
slots are used than workers are wanted, the executors are spread again. And a worker that lives though its supervisor is
away is left alone as long as there are too few other slots: it could not be started again where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Slot(NamedTuple):
    """A place for one worker."""

    supervisor_id: str
    port: int


Executor = tuple[int, int]  # its first and last task id
Placement = dict[Slot, tuple[Executor, ...]]


@dataclass(frozen=True)
class Request:
    """What one topology needs, and where it may go.

    ``alive``: the executors that run now, by slot, whether or not that slot's supervisor is registered.
    ``offered``: slots of registered supervisors that no other topology uses.
    ``suspect``: those among them in which this topology's worker fell silent.
    """

    executors: Sequence[Executor]
    workers: int
    alive: Mapping[Slot, tuple[Executor, ...]]
    offered: Collection[Slot]
    suspect: Collection[Slot] = field(default=())


def place(request: Request) -> Placement:
    """A place for every executor, by slot, as far as there is one. Empty if there is no slot at all."""
    known = set(request.executors)
    offered = set(request.offered)
    alive = {slot: run for slot, all_ in request.alive.items() if (run := tuple(e for e in all_ if e in known))}
    # A worker whose executors change has to be started again, which takes a supervisor.
    alive = {slot: run for slot, run in alive.items() if slot in offered or run == request.alive[slot]}
    total = min(request.workers, len(known), len({*alive, *request.offered}))
    placed = {executor for run in alive.values() for executor in run}
    if len(alive) == total and placed == known:
        return _sorted(alive)

    kept = _keep(alive, even_sizes(len(known), total))
    usable = offered - kept.keys()
    fresh = _by_trust(usable, request.suspect)[: total - len(kept)]
    # Too few places: living workers without a supervisor keep theirs, whatever their size.
    orphans = sorted(alive.keys() - kept.keys() - usable)
    kept |= {slot: alive[slot] for slot in orphans[: total - len(kept) - len(fresh)]}
    targets = fresh or sorted(kept.keys() & offered)
    dealt = _deal(known, kept, targets)
    if placed == known and len(dealt) <= len(alive) <= total:
        return _sorted(alive)  # moving would not spread the executors over more slots
    return dealt


def place_from_scratch(executors: Sequence[Executor], workers: int, offered: Collection[Slot]) -> Placement:
    """A place for every executor as if none ran yet: what a rebalance does."""
    return place(Request(executors, workers, {}, offered))


def even_sizes(executors: int, slots: int) -> list[int]:
    """How many executors each slot gets: sizes differ by at most one, larger first."""
    if slots == 0:
        return []
    size, larger = divmod(executors, slots)
    return [size + 1] * larger + [size] * (slots - larger)


def interleaved(slots: Iterable[Slot]) -> list[Slot]:
    """Storm's order: the first port of each supervisor, then the second of each, and so on. Supervisors with more of
    these slots come first, then those with the smaller id."""
    by_supervisor: dict[str, list[Slot]] = {}
    for slot in sorted(slots):
        by_supervisor.setdefault(slot.supervisor_id, []).append(slot)
    columns = sorted(by_supervisor.values(), key=lambda column: -len(column))
    rows = max(map(len, columns), default=0)
    return [column[row] for row in range(rows) for column in columns if row < len(column)]


def _by_trust(slots: Collection[Slot], suspect: Collection[Slot]) -> list[Slot]:
    """Slots of machines that are heard from, then those beside a suspect one, then the suspect ones."""
    doubted = {slot.supervisor_id for slot in suspect}
    distrust = {slot: (slot.supervisor_id in doubted) + (slot in suspect) for slot in slots}
    return [slot for level in range(3) for slot in interleaved(one for one in slots if distrust[one] == level)]


def _keep(alive: Mapping[Slot, tuple[Executor, ...]], sizes: Sequence[int]) -> Placement:
    """The slots that are as large as the even spread wants one to be."""
    unclaimed = Counter(sizes)
    kept: Placement = {}
    for slot in sorted(alive):
        size = len(alive[slot])
        if unclaimed[size] > 0:
            unclaimed[size] -= 1
            kept[slot] = alive[slot]
    return kept


def _deal(executors: Collection[Executor], kept: Placement, targets: Sequence[Slot]) -> Placement:
    placed = {executor for run in kept.values() for executor in run}
    waiting = sorted(executor for executor in executors if executor not in placed) if targets else []
    result = {slot: list(run) for slot, run in kept.items()}
    for number, executor in enumerate(waiting):
        result.setdefault(targets[number % len(targets)], []).append(executor)
    return _sorted(result)


def _sorted(placement: Mapping[Slot, Iterable[Executor]]) -> Placement:
    return {slot: tuple(sorted(placement[slot])) for slot in sorted(placement)}
