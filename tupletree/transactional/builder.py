"""Builder of transactional topologies, made of ordinary spouts, bolts and streams.

    id:coordinator (spout) --batch, all--> spout (emitters) ----> bolts
                           --commit, all---------------------------> committers

Each input of a bolt is accompanied by a direct stream of reports from the same component (counting.py).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NoReturn

from tupletree._definition import Definition, Input
from tupletree._signatures import check_calls
from tupletree.component import BasicBolt, Bolt, Spout
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.declarer import BoltDeclarer, ComponentDeclarer, SpoutDeclarer
from tupletree.errors import TopologyError
from tupletree.topology import Topology, TopologyBuilder
from tupletree.transactional.attempt_field import GroupingWithoutAttempt
from tupletree.transactional.bolts import BatchBolt, Committer, GroupCommitter
from tupletree.transactional.coordinated_bolt import CoordinatedBolt
from tupletree.transactional.coordinator_spout import CoordinatorSpout
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.layout import check_id
from tupletree.transactional.maps import OpaqueMap, TransactionalMap
from tupletree.transactional.opaque import OpaqueSpoutAdapter
from tupletree.transactional.partitioned import PartitionedSpoutAdapter
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSpout,
    TransactionalSpoutBase,
)
from tupletree.transactional.streams import BATCH_STREAM, COMMIT_STREAM, REPORT, coordinator_id
from tupletree.v1.topology_pb2 import GroupingKind


class TransactionalTopologyBuilder(TopologyBuilder):
    """Builds a topology from one transactional spout and the bolts that process its batches.

    ``transactional_id``: the name under which progress is stored in ZooKeeper. A topology built with the same id
    continues where the last topology stopped. Two topologies with one id cannot make progress at the same time: the
    later one takes over, and the earlier one stands still until its coordinator is restarted and takes over in turn.
    ``parallelism``: the parallelism of the spout's emitters.

    ``topology.max.spout.pending`` is the maximum number of batches active at a time (default 1).

    Raises:
        TopologyError, UsageError: the id or the spout is invalid.
    """

    _default_active = 1  # batches, if topology.max.spout.pending is not set

    def __init__(
        self, transactional_id: str, spout_id: str, spout: TransactionalSpoutBase, parallelism: int = 1
    ) -> None:
        super().__init__()
        check_id(transactional_id)
        self.transactional_id = transactional_id
        self.spout_id = spout_id
        adapted = _adapted(transactional_id, spout_id, spout)
        bolt = self._emitter_bolt(adapted)
        self._emitter = super().set_bolt(spout_id, bolt, parallelism)
        coordinator = CoordinatorSpout(transactional_id, adapted, default_active=self._default_active)
        self._coordinator_id = coordinator_id(spout_id)
        super().set_spout(self._coordinator_id, coordinator).add_configuration("topology.tasks", 1)
        self._emitter.all_grouping(self._coordinator_id, BATCH_STREAM)
        if bolt.commits:
            self._emitter.all_grouping(self._coordinator_id, COMMIT_STREAM)
        self._check_outputs(self._components[spout_id])

    def _emitter_bolt(self, spout: TransactionalSpout) -> EmitterBolt:
        """Return the bolt that runs the spout's emitters."""
        return EmitterBolt(spout)

    @property
    def spout_declarer(self) -> ComponentDeclarer:
        """Declarer of the spout: tasks and configuration of the emitters, number of batches active at a time."""
        return self._emitter

    def set_spout(self, component_id: str, spout: Spout, parallelism: int = 1) -> SpoutDeclarer:
        """Raise TopologyError: the only spout is the spout given to the builder."""
        _refuse(
            component_id, "a transactional topology has one spout only, which was given to its builder", "component"
        )

    def set_bolt(self, component_id: str, bolt: Any, parallelism: int = 1) -> BoltDeclarer:
        """Add a BatchBolt or a BasicBolt. A BatchBolt marked as Committer finishes its batches in the commit phase.

        Raises:
            TopologyError: as TopologyBuilder.set_bolt; or the bolt is of another class, declares a stream without
                fields, or declares the field ``attempt`` other than as the first field of all of its streams; or an
                attribute of the bolt is a map or sink that is not made for the spout or for a GroupCommitter.
        """
        return self._set(component_id, bolt, parallelism, is_committer=isinstance(bolt, Committer))

    def set_committer_bolt(self, component_id: str, bolt: Any, parallelism: int = 1) -> BoltDeclarer:
        """Add a BatchBolt that finishes its batches in the commit phase, with or without the Committer marker.

        Raises:
            TopologyError: as ``set_bolt``.
        """
        return self._set(component_id, bolt, parallelism, is_committer=True)

    def create_topology(self) -> Topology:
        """Create the topology, as TopologyBuilder.create_topology does.

        Raises:
            TopologyError: as TopologyBuilder.create_topology; or the bolts form a cycle, or a component requests ticks.
        """
        for definition in self._components.values():  # first, so that errors name what the user wrote
            self._check_inputs(definition)
            if definition.conf.get("topology.tick.tuple.freq.secs") is not None:
                _refuse(definition.id, "a tick belongs to no batch: a transactional topology has no ticks", "ticks")
        self._check_acyclic()
        late = self._late()
        pending = "topology.max.spout.pending"  # a value set on the spout applies to its coordinator
        wired = TopologyBuilder()
        wired._components = {
            id: self._wired(definition.copy(), late) for id, definition in self._components.items()
        }  # fmt: skip
        if pending in wired._components[self.spout_id].conf:
            wired._components[self._coordinator_id].conf[pending] = wired._components[self.spout_id].conf.pop(pending)
        wired._worker_hooks = self._worker_hooks
        return wired.create_topology()

    def _set(self, component_id: str, bolt: Any, parallelism: int, *, is_committer: bool) -> BoltDeclarer:
        if is_committer and isinstance(bolt, BasicBolt):
            _refuse(
                component_id, f"a committer must be a BatchBolt, not the BasicBolt {type(bolt).__name__}", "component"
            )
        if not isinstance(bolt, BatchBolt | BasicBolt):
            _refuse_kind(component_id, bolt)
        check_calls(f"bolt '{component_id}'", component_id, bolt)
        self._check_held(component_id, bolt)
        return super().set_bolt(component_id, CoordinatedBolt(bolt, is_committer), parallelism)

    def _check_held(self, component_id: str, bolt: BatchBolt | BasicBolt) -> None:
        """Refuse maps and sinks in attributes of the bolt that are not made for the spout or for a GroupCommitter."""
        for attribute, held in getattr(bolt, "__dict__", {}).items():
            if isinstance(bolt, GroupCommitter):
                self._check_in_group(component_id, attribute, held)
            if not self._is_opaque:
                continue
            if isinstance(held, TransactionalMap):
                _refuse(
                    component_id,
                    f"'{attribute}' is a TransactionalMap, which is for identical replays; replays of the opaque spout "
                    f"'{self.spout_id}' may differ: use an OpaqueMap",
                    attribute,
                )
            if isinstance(held, TransactionalSink) and held.opaque_refusal:
                _refuse(
                    component_id,
                    f"{held.target} cannot be written behind the opaque spout '{self.spout_id}': {held.opaque_refusal}",
                    attribute,
                )

    @staticmethod
    def _check_in_group(component_id: str, attribute: str, held: object) -> None:
        if isinstance(held, TransactionalMap):
            if held.is_for_groups:
                return
            what, advice = "a TransactionalMap for one transaction at a time", "make it with in_groups=True"
        elif isinstance(held, OpaqueMap | TransactionalSink):
            what, advice = f"{type(held).__name__}, which takes one transaction at a time", "use the marker Committer"
        else:
            return
        _refuse(component_id, f"'{attribute}' of this GroupCommitter is {what}: {advice}", attribute)

    @property
    def _commits_in_groups(self) -> bool:
        """True if every committer is a GroupCommitter."""
        emitter = self._components[self.spout_id].component.spout
        bolts = [one.component for one in self._components.values() if isinstance(one.component, CoordinatedBolt)]
        committers: list[object] = [bolt.bolt for bolt in bolts if bolt.is_committer]
        if isinstance(emitter, Committer):
            committers.append(emitter)
        return bool(committers) and all(isinstance(one, GroupCommitter) for one in committers) and not self._is_opaque

    @property
    def _is_opaque(self) -> bool:
        return isinstance(self._components[self.spout_id].component.spout, OpaqueSpoutAdapter)

    def _wired(self, definition: Definition, late: set[str]) -> Definition:
        """Add the internal inputs to a component: reports, and commit tuples for a committer.

        A custom grouping gets the values that the component receives. The coordinator is told whether transactions
        commit in groups.
        """
        if isinstance(definition.component, CoordinatorSpout) and self._commits_in_groups:
            coordinator = definition.component = copy.copy(definition.component)
            coordinator.commits_in_groups = True
            definition.outputs = {**definition.outputs, COMMIT_STREAM: coordinator.commit_stream}
        if isinstance(definition.component, CoordinatedBolt):
            bolt = definition.component = copy.copy(definition.component)
            bolt.sources = {item.source: item.source in late for item in definition.inputs}
            bolt.hidden = self._hidden(bolt)
            bolt.is_opaque = self._is_opaque
            bolt.required_fields = ()  # of the inputs so far, which are checked
            definition.inputs = [
                replace(item, custom=GroupingWithoutAttempt(item.custom))
                if item.custom is not None and item.source in bolt.hidden
                else item
                for item in definition.inputs
            ]
            definition.inputs += [Input(id, REPORT.id, GroupingKind.GROUPING_KIND_DIRECT) for id in bolt.sources]
            if bolt.is_committer:
                definition.inputs.append(Input(self._coordinator_id, COMMIT_STREAM, GroupingKind.GROUPING_KIND_ALL))
        return definition

    def _hidden(self, bolt: CoordinatedBolt) -> frozenset[str]:
        """Return the sources whose tuples a bolt receives without the attempt."""
        if bolt.carried is None:
            return frozenset()
        return frozenset(
            id for id in bolt.sources if bolt.carried or not self._components[id].component.shows_attempt
        )  # fmt: skip

    def _late(self) -> set[str]:
        """Return the ids of committers and of all components downstream of a committer."""
        found = {
            id
            for id, definition in self._components.items()
            if isinstance(definition.component, CoordinatedBolt) and definition.component.is_committer
        }
        while True:
            more = {
                id
                for id, definition in self._components.items()
                if id not in found and any(item.source in found for item in definition.inputs)
            }
            if not more:
                return found
            found |= more

    def _check_acyclic(self) -> None:
        """Refuse a cycle: no bolt in a cycle could ever know that a batch is complete."""
        sources = {id: {item.source for item in definition.inputs} for id, definition in self._components.items()}
        while free := [id for id, upstream in sources.items() if not upstream & sources.keys()]:
            for id in free:
                del sources[id]
        if sources:
            id = min(sources)
            _refuse(
                id, f"the bolts {', '.join(sorted(sources))} form a cycle, in which no batch is ever complete", "inputs"
            )

    def _check_outputs(self, spout: Definition) -> None:
        if len(spout.outputs) < 2:
            _refuse(spout.id, "the spout declares no output fields", "outputs")


def _adapted(transactional_id: str, spout_id: str, spout: Any) -> TransactionalSpout:
    if isinstance(spout, TransactionalSpoutBase):
        check_calls(f"spout '{spout_id}'", spout_id, spout)
    match spout:
        case TransactionalSpout():
            return spout
        case PartitionedTransactionalSpout():
            return PartitionedSpoutAdapter(transactional_id, spout)
        case OpaquePartitionedTransactionalSpout():
            return OpaqueSpoutAdapter(transactional_id, spout)
    kinds = "a TransactionalSpout, PartitionedTransactionalSpout or OpaquePartitionedTransactionalSpout"
    what = (
        f"an object, not the class {spout.__name__}"
        if isinstance(spout, type)
        else f"{kinds}, not {type(spout).__name__}"
    )
    _refuse(str(spout_id), f"the spout of a transactional topology must be {what}", "component")


def _refuse_kind(component_id: str, bolt: Any) -> NoReturn:
    if isinstance(bolt, type):
        _refuse(component_id, f"takes an object, not the class {bolt.__name__}: {bolt.__name__}(…)", "component")
    if isinstance(bolt, Bolt):
        _refuse(
            component_id,
            f"{type(bolt).__name__} is a Bolt, which acks by itself; a transactional topology takes a BatchBolt or a "
            f"BasicBolt",
            "component",
        )
    _refuse(component_id, f"must be a BatchBolt or a BasicBolt, not {type(bolt).__name__}", "component")


def _refuse(component_id: object, fault: str, field: str) -> NoReturn:
    raise TopologyError(f"component '{component_id}': {fault}", component=str(component_id), field=field)
