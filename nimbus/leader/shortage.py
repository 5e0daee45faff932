"""The sentence that explains why executors have no place under the resource scheduler: what is missing, and where."""

from __future__ import annotations  # pure

import math
from collections.abc import Mapping, Sequence

from tupletree._constraints import CONSTRAINTS, ONE_COMPONENT, ONE_EXECUTOR

from .free_machines import FreeMachines
from .resource_request import Placed, ResourceRequest
from .resources import MEMORY, ROUNDING, Vector, total
from .scheduler import Executor


def shortage(request: ResourceRequest, placed: Placed) -> str:
    """Explain in one sentence why executors have no place: what is missing, and where."""
    missing = placed.missing
    free = FreeMachines(request, missing, placed.placement)
    why = (
        _of_one_executor(request, missing, free.room)
        or _of_machines(request, missing, free)
        or _of_all(request, missing, free.room)
        or _of_slots(request, missing)
        or _of_pieces(request, missing, free.room)
    )
    return f"{_waiting(request, missing)} has a place: {why}."


def _waiting(request: ResourceRequest, missing: Sequence[Executor]) -> str:
    if len(missing) == len(request.components):
        return f"None of its {len(missing)} executors"
    return f"None of the {len(missing)} executors that do not run, of {len(request.components)},"


def _of_one_executor(request: ResourceRequest, missing: Sequence[Executor], room: Mapping[str, Sequence[float]]) -> str:
    """Name an executor that fits nowhere."""
    axes = request.axes
    if not room:
        return "no supervisor announces a capacity"
    for name in sorted({request.components[executor] for executor in missing}):
        needs = request.needs[name]
        if needs[MEMORY] > request.worker_max_mb + ROUNDING:
            return (
                f"an executor of '{name}' needs {axes.amount(MEMORY, needs[MEMORY])}, and "
                f"topology.worker.max.heap.size.mb permits {request.worker_max_mb:g} in a worker"
            )
        for axis, need in enumerate(needs):
            most, where = max((one[axis], supervisor) for supervisor, one in sorted(room.items()))
            if need > most + ROUNDING:
                amount = axes.amount(axis, need)
                if most <= ROUNDING:
                    return f"an executor of '{name}' needs {amount}, and no supervisor has any of that free"
                return (
                    f"an executor of '{name}' needs {amount}, and no supervisor has more than "
                    f"{axes.amount(axis, most)} free, which is on '{where}'"
                )
    return ""


def _of_machines(request: ResourceRequest, missing: Sequence[Executor], free: FreeMachines) -> str:
    """Name a component with a maximum on a machine for which there are too few machines."""
    constraints = request.constraints
    for name, count in request.limited(request.count(missing)):
        if (places := free.places(name)) < count:
            executors = "1 executor" if (most := constraints.per_machine[name]) == 1 else f"{most} executors"
            return (
                f"component '{name}' may have {executors} on a machine ({constraints.keys_of(name)[0]}), so the "
                f"machines with room and a free slot take {places} of {count}"
            )
    return ""


def _of_all(request: ResourceRequest, missing: Sequence[Executor], room: Mapping[str, Sequence[float]]) -> str:
    """Name the resources of which all supervisors together have too little."""
    axes, whole = request.axes, request.sum(missing)
    free = _sum(request, room)
    short = [axes.amount(axis, need - free[axis]) for axis, need in enumerate(whole) if need > free[axis] + ROUNDING]
    return f"they need {axes.shown(whole)}, of which the supervisors lack {' and '.join(short)}" if short else ""


def _of_slots(request: ResourceRequest, missing: Sequence[Executor]) -> str:
    """Say that there are too few slots."""
    constraints, apart = request.constraints, _apart(request, missing)
    if constraints.has_one_executor:
        least, why = len(missing), f" (each worker has one executor: {ONE_EXECUTOR})"
    elif constraints.has_one_component:
        least, why = len(apart), f" (a worker has executors of one component: {ONE_COMPONENT})"
    elif len(apart) > 1:
        least, why = len(apart), f" ({_named(apart)} may not share a worker: {CONSTRAINTS})"
    else:
        least, why = 1, ""
    by_memory = math.ceil((request.sum(missing)[MEMORY] - ROUNDING) / request.worker_max_mb)
    if by_memory > least:
        least, why = by_memory, ""
    slots = len(set(request.offered) - request.alive.keys())
    return f"they need {least} free slots or more, and there are {slots}{why}" if slots < least else ""


def _of_pieces(request: ResourceRequest, missing: Sequence[Executor], room: Mapping[str, Sequence[float]]) -> str:
    """Say what remains: there is enough of everything, but not where it is needed."""
    axes, constraints = request.axes, request.constraints
    named = [name for name in sorted(request.count(missing)) if constraints.names(name)]
    where = "too small, or without a free slot"
    if constraints.has_one_executor:
        where = f"too small, without a free slot, or kept to one executor in a worker by {ONE_EXECUTOR}"
    elif constraints.has_one_component:
        where = f"too small, without a free slot, or kept to one component in a worker by {ONE_COMPONENT}"
    elif named:
        keys = " and ".join(dict.fromkeys(key for name in named for key in constraints.keys_of(name)))
        where = f"too small, without a free slot, or where {_named(named)} may not be ({keys})"
    return (
        f"they need {axes.shown(request.sum(missing))}, and the {axes.shown(_sum(request, room))} that supervisors "
        f"have free are in pieces that are {where}"
    )


def _apart(request: ResourceRequest, missing: Sequence[Executor]) -> list[str]:
    """Return components of which no two may share a worker."""
    found: list[str] = []
    constraints, counts = request.constraints, request.count(missing)
    for name in sorted(counts, key=lambda one: (-len(constraints.apart.get(one, ())), one)):
        if all(not constraints.may_join(name, {other}) for other in found):
            found.append(name)
    return sorted(found)


def _sum(request: ResourceRequest, room: Mapping[str, Sequence[float]]) -> Vector:
    """Return what supervisors have together."""
    return total((tuple(max(0.0, value) for value in one) for one in room.values()), request.axes)


def _named(components: Sequence[str]) -> str:
    """Return up to five components as text."""
    shown = [f"'{name}'" for name in components[:5]] + ([f"{len(components) - 5} more"] if len(components) > 5 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
