"""Placement of a topology's executors: Storm's even scheduler, sticky and deterministic.

A *slot* is a port of a supervisor and holds at most one worker. Topologies are placed one at a time:

1. ``total`` slots are to be used: as many as workers are wanted, bounded by the number of slots and of executors.
2. If every executor runs, and either ``total`` slots are in use or moving would not use more slots, nothing moves.
3. Otherwise the executors are spread evenly: over k slots, sizes differ by at most one. Each of the k sizes can be
   claimed once, by a slot with exactly that number of running executors, which then keeps its executors. The other
   slots are given up: a worker whose executors change restarts anyway.
4. Executors without a slot are dealt round-robin, ascending by task id, over the slots in the order of
   ``interleaved``.

Slots of other topologies are not touched. The same input gives the same output, and feeding the output back moves
nothing.

Based on Storm's DefaultScheduler and EvenScheduler, with three differences:

* A slot whose worker fell silent is used last (Storm leaves the slot out of one round): if no other slot is free, the
  supervisor restarts the worker there. Other slots of that supervisor are used second to last: its machine can be down.
* When more slots are used than workers are wanted, the executors are spread again.
* A running worker whose supervisor is gone is left alone while there are too few other slots: it could not be restarted
  in its slot.
"""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Slot(NamedTuple):
    """A port of a supervisor, for one worker."""

    supervisor_id: str
    port: int


Executor = tuple[int, int]  # first and last task id
Placement = dict[Slot, tuple[Executor, ...]]


@dataclass(frozen=True)
class Request:
    """Requirements of one topology, and the slots offered to it.

    ``alive``: the executors that run now, by slot, whether or not the slot's supervisor is registered.
    ``offered``: slots of registered supervisors that no other topology uses.
    ``suspect``: the offered slots in which this topology's worker fell silent.
    """

    executors: Sequence[Executor]
    workers: int
    alive: Mapping[Slot, tuple[Executor, ...]]
    offered: Collection[Slot]
    suspect: Collection[Slot] = field(default=())


def place(request: Request) -> Placement:
    """Assign the executors to slots, as far as slots allow. Empty if there is no slot at all."""
    known = set(request.executors)
    offered = set(request.offered)
    alive = {slot: run for slot, all_ in request.alive.items() if (run := tuple(e for e in all_ if e in known))}
    # A worker whose executors change must be restarted, which takes a supervisor.
    alive = {slot: run for slot, run in alive.items() if slot in offered or run == request.alive[slot]}
    total = min(request.workers, len(known), len({*alive, *request.offered}))
    placed = {executor for run in alive.values() for executor in run}
    if len(alive) == total and placed == known:
        return _sorted(alive)

    kept = _keep(alive, even_sizes(len(known), total))
    usable = offered - kept.keys()
    fresh = _by_trust(usable, request.suspect)[: total - len(kept)]
    # Too few slots: running workers without a supervisor keep theirs, whatever their size.
    orphans = sorted(alive.keys() - kept.keys() - usable)
    kept |= {slot: alive[slot] for slot in orphans[: total - len(kept) - len(fresh)]}
    targets = fresh or sorted(kept.keys() & offered)
    dealt = _deal(known, kept, targets)
    if placed == known and len(dealt) <= len(alive) <= total:
        return _sorted(alive)  # moving would not spread the executors over more slots
    return dealt


def place_from_scratch(executors: Sequence[Executor], workers: int, offered: Collection[Slot]) -> Placement:
    """Assign the executors to slots as if none ran yet, for a rebalance."""
    return place(Request(executors, workers, {}, offered))


def even_sizes(executors: int, slots: int) -> list[int]:
    """Return the number of executors per slot: sizes differ by at most one, larger first."""
    if slots == 0:
        return []
    size, larger = divmod(executors, slots)
    return [size + 1] * larger + [size] * (slots - larger)


def interleaved(slots: Iterable[Slot]) -> list[Slot]:
    """Return the slots in Storm's order: the first port of each supervisor, then the second of each, and so on.

    Supervisors with more of these slots come first; ties are broken by the smaller id.
    """
    by_supervisor: dict[str, list[Slot]] = {}
    for slot in sorted(slots):
        by_supervisor.setdefault(slot.supervisor_id, []).append(slot)
    columns = sorted(by_supervisor.values(), key=lambda column: -len(column))
    rows = max(map(len, columns), default=0)
    return [column[row] for row in range(rows) for column in columns if row < len(column)]


def _by_trust(slots: Collection[Slot], suspect: Collection[Slot]) -> list[Slot]:
    """Sort slots: first those of supervisors without a suspect slot, then the others, suspect slots last."""
    doubted = {slot.supervisor_id for slot in suspect}
    distrust = {slot: (slot.supervisor_id in doubted) + (slot in suspect) for slot in slots}
    return [slot for level in range(3) for slot in interleaved(one for one in slots if distrust[one] == level)]


def _keep(alive: Mapping[Slot, tuple[Executor, ...]], sizes: Sequence[int]) -> Placement:
    """Return the slots whose size fits the even spread."""
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
