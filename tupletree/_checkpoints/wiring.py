"""Checkpoint wiring of a topology with stateful bolts: the checkpoint spout, and its stream through the whole DAG.

Every component gets the direct stream ``$checkpoint``. A bolt subscribes to this stream of each of its sources. A
spout, a bolt fed by a spout, and a bolt without inputs subscribe to the stream of the checkpoint spout. A task uses
these subscriptions according to the mode, which is known only from the configuration
(worker/checkpoint/membership.py):

    default                                    aligned
    $checkpointspout --> bolts fed by spouts   $checkpointspout --> spouts --> bolts fed by spouts
    bolt ------------------------> bolt        bolt -------------------------> bolt
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT, STREAM
from tupletree._definition import Definition, Input
from tupletree._signatures import is_generator
from tupletree._stored_states import MIGRATED, can_migrate, is_positioned, state_form
from tupletree.component import Spout, StatefulBolt
from tupletree.errors import TopologyError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.options import PROVIDER
from tupletree.v1.topology_pb2 import ComponentKind, GroupingKind


def with_checkpoints(components: Mapping[str, Definition]) -> dict[str, Definition]:
    """Return a copy of the components with the checkpoint spout and stream added.

    Raises:
        TopologyError: components form a cycle, on which a checkpoint would never be complete; a spout has only one of
            the two methods of a positioned spout; a spout is not positioned, and a bolt behind it needs positions; or a
            bolt has a ``state_version`` that it cannot have.
    """
    _check_acyclic(components)
    spouts = {id for id, one in components.items() if one.kind == ComponentKind.COMPONENT_KIND_SPOUT}
    for id in spouts:
        _check_position(components[id])
    for id, one in components.items():
        if isinstance(one.component, StatefulBolt) and one.component.needs_positions:
            _check_positions_before(components, id)
    roots = [id for id, one in components.items() if id not in spouts and not one.inputs]
    begins = [id for id, one in components.items() if any(item.source in spouts for item in one.inputs)] + roots
    stateful = [id for id, one in components.items() if isinstance(one.component, StatefulBolt)]
    positioned = [id for id in spouts if is_positioned(components[id].component)]
    versions = {id: version for id in stateful if (version := _state_version(components[id])) != 1}
    providers = {id: components[id].conf[PROVIDER] for id in versions if PROVIDER in components[id].conf}
    spout = CheckpointSpout(begins, sorted(spouts) + roots, stateful, sorted(positioned), versions, providers)
    wired = {id: _wired(one.copy(), spouts) for id, one in components.items()}
    wired[CHECKPOINT_SPOUT] = Definition(
        CHECKPOINT_SPOUT,
        ComponentKind.COMPONENT_KIND_SPOUT,
        spout,
        1,
        {STREAM.id: STREAM},
        conf={"topology.tasks": 1, "topology.max.spout.pending": None},
    )
    return wired


def _wired(definition: Definition, spouts: set[str]) -> Definition:
    sources = list(dict.fromkeys(item.source for item in definition.inputs))
    if not sources or not spouts.isdisjoint(sources):
        sources.append(CHECKPOINT_SPOUT)
    steps = [Input(source, CHECKPOINT_STREAM, GroupingKind.GROUPING_KIND_DIRECT) for source in sources]
    return replace(
        definition,
        inputs=[*definition.inputs, *steps],
        outputs={**definition.outputs, CHECKPOINT_STREAM: STREAM},
    )


def _check_acyclic(components: Mapping[str, Definition]) -> None:
    sources = {id: {item.source for item in one.inputs} for id, one in components.items()}
    while free := [id for id, upstream in sources.items() if not upstream & sources.keys()]:
        for id in free:
            del sources[id]
    if sources:
        id = min(sources)
        raise TopologyError(
            f"component '{id}': {', '.join(sorted(sources))} form a cycle, on which no checkpoint is ever complete; a "
            f"topology with stateful bolts must not have a cycle",
            component=id,
            field="inputs",
        )


def _state_version(definition: Definition) -> int:
    bolt = definition.component
    assert isinstance(bolt, StatefulBolt)
    version = bolt.state_version
    if type(version) is not int or not 1 <= version < 2**31:
        fault = f"state_version is {version!r}; a number from 1 on was expected"
    elif version > 1 and not can_migrate(bolt):
        fault = (
            f"state_version is {version}, and there is no migrate_value: define migrate_value(key, value, version), "
            f"which returns a value of an earlier version as this one stores it"
            if state_form(bolt) in MIGRATED
            else f"state_version is {version}, and the states of a {state_form(bolt)} cannot be migrated"
        )
    else:
        return version
    raise TopologyError(f"{definition.title}: {fault}", component=definition.id, field="state_version")


def _check_position(definition: Definition) -> None:
    kind = type(definition.component)
    has = [name for name in ("checkpoint_state", "restore_state") if getattr(kind, name) is not getattr(Spout, name)]
    if len(has) == 1:
        raise TopologyError(
            f"{definition.title}: {kind.__name__} has only {has[0]}; define both checkpoint_state and restore_state",
            component=definition.id,
            field=has[0],
        )
    if has and is_generator(definition.component.next_tuple):
        raise TopologyError(
            f"{definition.title}: {kind.__name__}.next_tuple has a 'yield', and the spout's position may "
            f"be checkpointed before lines after it have run: use 'self.collector.emit([value], msg_id)' instead",
            component=definition.id,
            field="next_tuple",
        )


def _check_positions_before(components: Mapping[str, Definition], id: str) -> None:
    before, found = {id}, [id]
    while found:
        sources = {item.source for item in components[found.pop()].inputs} & components.keys()
        found.extend(sources - before)
        before |= sources
    for source in sorted(before):
        spout = components[source].component
        if isinstance(spout, Spout) and not is_positioned(spout):
            raise TopologyError(
                f"{components[id].title}: {type(components[id].component).__name__} writes once what its spouts emit "
                f"again from a position, and spout '{source}' has none: give it checkpoint_state and restore_state, or "
                f"write at least once",
                component=id,
                field="inputs",
            )
