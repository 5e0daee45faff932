"""The constraints on placement that the configuration of a topology names, parsed and checked.

    topology.ras.constraints:
      score: {maxNodeCoLocationCnt: 2, incompatibleComponents: [train]}  # 2 on a machine; never in a worker with train
    topology.spread.components: [count]                                  # 1 on a machine, over racks first

The forms are Storm's. A machine is a supervisor.
"""

from __future__ import annotations  # pure

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tupletree import _limits
from tupletree.errors import UsageError

CONSTRAINTS: Final = "topology.ras.constraints"
SPREAD: Final = "topology.spread.components"
ONE_EXECUTOR: Final = "topology.ras.one.executor.per.worker"
ONE_COMPONENT: Final = "topology.ras.one.component.per.worker"
FAVORED: Final = "topology.scheduler.favored.nodes"
UNFAVORED: Final = "topology.scheduler.unfavored.nodes"
PLACEMENT_KEYS: Final = (CONSTRAINTS, SPREAD, ONE_EXECUTOR, ONE_COMPONENT, FAVORED, UNFAVORED)
"""The keys that only the resource scheduler follows."""

ISOLATION: Final = "isolation.scheduler.machines"
POOLS: Final = "multitenant.scheduler.user.pools"
ISOLATE: Final = "topology.isolate.machines"
MACHINE_KEYS: Final = (ISOLATION, POOLS, ISOLATE)
"""The keys that set machines apart, which only the even scheduler follows."""

MAX_ON_MACHINE: Final = "maxNodeCoLocationCnt"
APART: Final = "incompatibleComponents"
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True)
class Constraints:
    """Constraints that the placement of a topology keeps.

    Attributes:
        per_machine: the most executors of a component on one machine; components without a maximum are absent.
        apart: the components that may not share a worker with a component; each pair is there twice.
        spread: the components that are spread over racks first.
        has_one_executor: a worker has one executor.
        has_one_component: a worker has executors of one component.
    """

    per_machine: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    spread: frozenset[str] = frozenset()
    has_one_executor: bool = False
    has_one_component: bool = False

    def names(self, component: str) -> bool:
        """True if a component may not go wherever another with equal needs may."""
        is_every = self.has_one_executor or self.has_one_component
        return is_every or component in self.per_machine or component in self.apart

    def permit(self, components: Mapping[str, int]) -> bool:
        """True if a worker may have these numbers of executors, by component."""
        if (self.has_one_executor and sum(components.values()) > 1) or (self.has_one_component and len(components) > 1):
            return False
        return all(self.apart.get(name, _NONE).isdisjoint(components) for name in components)

    def may_join(self, component: str, others: Collection[str]) -> bool:
        """True if an executor of a component may come into a worker that has executors of ``others``."""
        if self.has_one_executor or (self.has_one_component and any(one != component for one in others)):
            return False
        return self.apart.get(component, _NONE).isdisjoint(others)

    def keys_of(self, component: str) -> list[str]:
        """Return the keys that constrain a component: first that of its maximum on a machine, if it has one."""
        is_spread = component in self.spread and self.per_machine[component] == 1
        return [SPREAD] * is_spread + [CONSTRAINTS] * (component in self.apart or not is_spread)


def constraints_of(conf: Mapping[str, Any]) -> Constraints:
    """Return the constraints of a valid configuration."""
    named: Mapping[str, Mapping[str, Any]] = conf.get(CONSTRAINTS) or {}
    spread = frozenset(conf.get(SPREAD) or ())
    limits = {name: int(one[MAX_ON_MACHINE]) for name, one in named.items() if MAX_ON_MACHINE in one}
    apart: dict[str, set[str]] = {}
    for name, one in named.items():
        for other in _listed(one.get(APART, ())):
            apart.setdefault(name, set()).add(other)
            apart.setdefault(other, set()).add(name)
    return Constraints(
        per_machine={**dict.fromkeys(spread, 1), **limits},
        apart={name: frozenset(others) for name, others in apart.items()},
        spread=spread,
        has_one_executor=bool(conf.get(ONE_EXECUTOR)),
        has_one_component=bool(conf.get(ONE_COMPONENT)),
    )


def constraints_fault(value: object) -> str | None:
    """Return the fault of a value of ``topology.ras.constraints``, as the end of an error message, or None."""
    if not isinstance(value, Mapping):
        return f"maps components to constraints, not {_limits.shown(value)}"
    return next((fault for name, one in value.items() if (fault := _component_fault(name, one))), None)


def _component_fault(name: str, constraints: object) -> str | None:
    what = f"component {_limits.shown(name)}"
    if not isinstance(constraints, Mapping):
        return f"{what} takes constraints such as {{{MAX_ON_MACHINE}: 2}}, not {_limits.shown(constraints)}"
    for kind, value in constraints.items():
        if kind == MAX_ON_MACHINE:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                return f"{MAX_ON_MACHINE} of {what} takes a whole number of at least 1, not {_limits.shown(value)}"
        elif kind == APART:
            others = _listed(value)
            if not isinstance(others, list | tuple) or not all(isinstance(one, str) and one for one in others):
                return f"{APART} of {what} takes a list of components, not {_limits.shown(value)}"
            if name in others:
                return f"{APART} of {what} names the component itself; {MAX_ON_MACHINE} limits its executors"
        else:
            return f"{what} has the unknown constraint {_limits.shown(kind)}; write {MAX_ON_MACHINE} or {APART}"
    return None


def isolation_fault(value: object) -> str | None:
    """Return the fault of a value of ``isolation.scheduler.machines``, as the end of an error message, or None."""
    return _machines_fault(value, "topology", "names of topologies")


def pools_fault(value: object) -> str | None:
    """Return the fault of a value of ``multitenant.scheduler.user.pools``, as the end of an error message, or None."""
    return _machines_fault(value, "user", "users")


def _machines_fault(value: object, kind: str, kinds: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"maps {kinds} to numbers of machines, not {_limits.shown(value)}"
    for name, count in value.items():
        if not isinstance(name, str) or not name:
            return f"maps {kinds} to numbers of machines; {_limits.shown(name)} is no name"
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            what = f"{kind} {_limits.shown(name)}"
            return f"{what} takes a whole number of machines of at least 1, not {_limits.shown(count)}"
    return None


def check_placement(conf: Mapping[str, Any], components: Iterable[str], name: str) -> None:
    """Refuse constraints on components that a topology does not have, and machines both favored and unfavored.

    Raises UsageError.
    """
    known = sorted(components)
    named: Mapping[str, Mapping[str, Any]] = conf.get(CONSTRAINTS) or {}
    wanted = [(SPREAD, one) for one in conf.get(SPREAD) or ()]
    wanted += [(CONSTRAINTS, one) for first, it in named.items() for one in (first, *_listed(it.get(APART, ())))]
    for key, one in wanted:
        if one not in known:
            nearest = difflib.get_close_matches(one, known, n=1, cutoff=0.0)
            hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
            raise UsageError(
                f"topology '{name}': {key} names component {_limits.shown(one)}, which it does not have{hint}"
            )
    both = sorted(set(conf.get(FAVORED) or ()) & set(conf.get(UNFAVORED) or ()))
    if both:
        raise UsageError(
            f"topology '{name}': {FAVORED} and {UNFAVORED} both name {_limits.shown(both[0])}; leave it out of one"
        )


def _listed(value: Any) -> Any:
    """Return the components of a constraint, which may be written without brackets if there is one."""
    return [value] if isinstance(value, str) else value
