"""Comparison of a savepoint with the program that is to begin with it: what is kept, new and lost, and what is refused.

A state is kept if it means the same to the program: the same kind of component, the same layout of entries
(``state_form``), keys by the same fields, a ``state_version`` that the code can read, and the same guarantee.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree._checkpoints.settings import ALIGNED, is_in_checkpoints
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._savepoints.manifest import ENCODED, Manifest, Part
from tupletree._stored_states import MIGRATED
from tupletree.errors import UsageError
from tupletree.parallelism import task_counts
from tupletree.state.options import DURABLE, PROVIDER
from tupletree.v1 import topology_pb2 as pb

KINDS: Final = {pb.COMPONENT_KIND_SPOUT: "spout", pb.COMPONENT_KIND_BOLT: "bolt"}
PLAIN_FORMS: Final = (*MIGRATED, "AggregateBolt", "UpdateStateBolt")
"""The forms of states whose entries are keys and values of the user, which another program can write."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Components by what becomes of their states; ascending. ``added``: those that begin empty."""

    kept: tuple[str, ...]
    added: tuple[str, ...]
    lost: tuple[str, ...]


def compare(manifest: Manifest, spec: pb.TopologySpec, conf: Mapping[str, Any], *, allow_lost: bool) -> Comparison:
    """Compare a savepoint with a program.

    ``spec``: the program's outline. ``conf``: its configuration, with the defaults of the cluster. ``allow_lost``: the
    savepoint may have states that the program does not have.

    Raises:
        UsageError: the program cannot begin with the savepoint.
    """
    aligned = bool(conf[ALIGNED])
    takes_checkpoints = any(one.id == CHECKPOINT_SPOUT for one in spec.components)
    keepers = {one.id: one for one in spec.components if takes_checkpoints and is_in_checkpoints(one, aligned)}
    if manifest.aligned not in (None, aligned):
        was = "exactly once, with" if manifest.aligned else "at least once, without"
        raise UsageError(
            f"the savepoint was taken {was} {ALIGNED}, and the topology has {json.dumps(aligned)}: set {ALIGNED} to "
            f"{json.dumps(manifest.aligned)}, so that the guarantee stays"
        )
    lost = tuple(sorted(manifest.components.keys() - keepers.keys()))
    if lost and not allow_lost:
        known = ", ".join(sorted(keepers)) or "none"
        raise UsageError(
            f"the savepoint has a state of component '{lost[0]}', and the topology has no such state (it has {known}): "
            f"keep the component's id, or give --allow-lost-state to leave the state behind"
        )
    tasks = task_counts(spec, conf)
    kept = tuple(sorted(manifest.components.keys() & keepers.keys()))
    for id in kept:
        _check_part(manifest.components[id], keepers[id], tasks[id], conf)
    return Comparison(kept, tuple(sorted(keepers.keys() - manifest.components.keys())), lost)


def fields_of(component: pb.ComponentSpec) -> list[list[str]]:
    """Return the fields of each fields grouping of a component, ascending."""
    found = {tuple(one.fields) for one in component.inputs if one.grouping == pb.GROUPING_KIND_FIELDS}
    return sorted(map(list, found))


def _check_part(part: Part, component: pb.ComponentSpec, tasks: int, conf: Mapping[str, Any]) -> None:
    id, kind = component.id, KINDS[component.kind]
    own = json.loads(component.conf_json or "{}")
    if ({**conf, **own}.get(PROVIDER) or "memory") == "memory":
        raise UsageError(
            f"component '{id}' keeps its state in the memory of its workers, which a savepoint cannot be restored to: "
            f"{DURABLE}"
        )
    if part.kind and part.kind != kind:
        raise UsageError(f"component '{id}' is a {part.kind} in the savepoint, and a {kind} in the topology")
    if part.state_form and part.state_form != component.state_form:
        raise UsageError(
            f"component '{id}' has stored what a {part.state_form} stores, which a {component.state_form} cannot read"
        )
    if part.rows != ENCODED and kind == "bolt" and component.state_form not in PLAIN_FORMS:
        raise UsageError(
            f"component '{id}': the state of a {component.state_form} cannot be written as plain keys and values"
        )
    if part.state_version > max(component.state_version, 1):
        raise UsageError(
            f"the state of component '{id}' was stored by its state_version {part.state_version}, and the topology "
            f"has state_version {max(component.state_version, 1)}, which cannot read it"
        )
    if part.tasks != tasks:
        _check_tasks(part, component, tasks)
    elif part.fields is not None and tasks > 1 and [*map(list, part.fields)] != fields_of(component):
        _refuse_fields(part, component)


def _check_tasks(part: Part, component: pb.ComponentSpec, tasks: int) -> None:
    if part.tasks and component.fixed_tasks:
        raise UsageError(
            f"component '{component.id}' has {part.tasks} tasks in the savepoint and {tasks} in the topology, and its "
            f"state cannot be divided: give it {part.tasks} tasks"
        )
    if component.kind != pb.COMPONENT_KIND_BOLT or (not part.tasks and tasks == 1):
        return
    if part.tasks == 1 and component.checks_keys and part.entries != 0:
        raise UsageError(
            f"component '{component.id}' has one task in the savepoint, which does not show whether the keys of its "
            f"state are those of its grouping: if they are, set is_divisible = True on its class; otherwise give it "
            f"1 task"
        )
    if not fields_of(component):
        raise UsageError(
            f"component '{component.id}' has {tasks} tasks, and no fields grouping says which of them has a key of the "
            f"savepoint: give it {part.tasks or 1} {'tasks' if part.tasks > 1 else 'task'}"
        )
    if part.fields is not None and [*map(list, part.fields)] != fields_of(component):
        _refuse_fields(part, component)


def _refuse_fields(part: Part, component: pb.ComponentSpec) -> None:
    assert part.fields is not None
    raise UsageError(
        f"component '{component.id}' has stored its state by {_listed(part.fields)}, and the topology groups its "
        f"inputs by {_listed(fields_of(component))}: entries would be looked for in other tasks"
    )


def _listed(keys: Sequence[Sequence[str]]) -> str:
    return " and ".join(f"({', '.join(fields)})" for fields in keys) or "no field"
