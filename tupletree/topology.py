"""Topologies: building, checking and serialization for the cluster.

    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=4).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), parallelism=4).fields_grouping("split", ["word"]).set_num_tasks(8)
    topology = builder.create_topology()

Every detectable mistake is a TopologyError, raised by the call that makes it if possible, by ``create_topology`` at the
latest. Cycles are allowed.
"""

from __future__ import annotations  # pure

import dataclasses
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tupletree import _pickling
from tupletree._chained import ChainedSpout
from tupletree._definition import Definition, Input
from tupletree._limits import MAX_TASKS, component_id_fault, shown
from tupletree._signatures import check_calls
from tupletree._stored_states import has_known_keys, is_divisible, keeps_state, state_form
from tupletree._wire.value_types import carried, class_references
from tupletree.component import (
    BasicBolt,
    Bolt,
    Component,
    Spout,
    StatefulBolt,
    configuration_of,
)
from tupletree.config import encode_conf
from tupletree.declarer import (
    BoltDeclarer,
    ComponentDeclarer,
    SpoutDeclarer,
    check_input,
    check_sides,
)
from tupletree.errors import ConfigError, TopologyError, UsageError
from tupletree.hooks import WorkerHook
from tupletree.outputs import RESERVED_PREFIXES, DirectFields, FieldsDeclarer, Stream, direct
from tupletree.parallelism import executor_counts, executors_of, task_counts, task_ranges, tasks_of
from tupletree.v1 import topology_pb2
from tupletree.v1.topology_pb2 import ComponentKind

__all__ = [
    "BoltDeclarer",
    "Definition",
    "DirectFields",
    "FieldsDeclarer",
    "Input",
    "SpoutDeclarer",
    "Stream",
    "Topology",
    "TopologyBuilder",
    "check_topology_name",
    "direct",
    "executor_counts",
    "executors_of",
    "task_counts",
    "task_ranges",
    "tasks_of",
]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


class Topology:
    """A checked topology. Created by ``TopologyBuilder.create_topology``; its components are copied at submission.

    Attributes:
        conf: settings that the topology needs, unless others are given when it is submitted.
    """

    def __init__(
        self,
        components: Mapping[str, Definition],
        conf: Mapping[str, Any] | None = None,
        worker_hooks: Sequence[WorkerHook] = (),
    ) -> None:
        self.components = dict(sorted(components.items()))
        self.conf: dict[str, Any] = dict(conf or {})
        self.worker_hooks = tuple(worker_hooks)

    def spec(self) -> topology_pb2.TopologySpec:
        """Return the topology as sent to the cluster, with each component pickled in its current state.

        Raises:
            TopologyError: a component cannot be pickled.
        """
        references = class_references()
        return topology_pb2.TopologySpec(
            components=[_encode(component, references) for component in self.components.values()],
            worker_hooks=[_pickling.dumps(hook) for hook in self.worker_hooks],
        )

    def outline(self) -> topology_pb2.TopologySpec:
        """Return ``spec`` without the pickled objects, so that reading it runs no user code."""
        return topology_pb2.TopologySpec(components=[_encode(component) for component in self.components.values()])

    def replacing(self, replacements: Mapping[str, Component]) -> Topology:
        """Return this topology with some components replaced, for example by test doubles.

        Ids, parallelism, configuration, inputs and declared streams remain those of the replaced components.

        Raises:
            TopologyError: there is no component with that id, or the replacement is of another kind.
        """
        components = dict(self.components)
        for component_id, component in replacements.items():
            old = components.get(component_id)
            if old is None:
                known = ", ".join(self.components)
                raise TopologyError(
                    f"there is no component '{component_id}' to replace; the topology has {known}",
                    component=component_id,
                )
            _check_kind(component_id, component, old.kind)
            check_calls(old.title, component_id, component)
            components[component_id] = dataclasses.replace(old.copy(), component=component)
        return Topology(components, self.conf, self.worker_hooks)


class TopologyBuilder:
    """Collects spouts and bolts and wires them up."""

    def __init__(self) -> None:
        self._components: dict[str, Definition] = {}
        self._worker_hooks: list[WorkerHook] = []

    def set_spout(self, component_id: str, spout: Spout, parallelism: int = 1) -> SpoutDeclarer:
        """Add a spout that runs with ``parallelism`` executors.

        Raises:
            TopologyError: the id is in use or reserved, the object is not a Spout, a method has a wrong signature
                (_signatures.py), its outputs are missing or faulty, or the parallelism is not a positive integer.
        """
        definition = self._add(component_id, spout, parallelism, ComponentKind.COMPONENT_KIND_SPOUT)
        return SpoutDeclarer(definition, self._components.get)

    def set_bolt(self, component_id: str, bolt: Bolt | BasicBolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt that runs with ``parallelism`` executors; declare its inputs on the returned declarer.

        Raises:
            TopologyError: as for ``set_spout``, except that a bolt need not have outputs.
        """
        definition = self._add(component_id, bolt, parallelism, ComponentKind.COMPONENT_KIND_BOLT)
        return BoltDeclarer(definition, self._components.get)

    def add_worker_hook(self, hook: WorkerHook) -> None:
        """Add a hook, of which each worker of the topology starts and shuts down a copy (docs/guides/hooks.md).

        Raises:
            TopologyError: the object is not a WorkerHook, or cannot be pickled.
        """
        if not isinstance(hook, WorkerHook):
            raise TopologyError(
                f"add_worker_hook takes an object of a class that extends WorkerHook, not {shown(hook)}",
                field="worker_hooks",
            )
        error = _pickle_error(hook)
        if error is not None:
            raise TopologyError(
                f"worker hook {type(hook).__name__} cannot be copied to the workers: {error}; create what cannot be "
                "pickled in start",
                field="worker_hooks",
            ) from error
        self._worker_hooks.append(hook)

    def create_topology(self) -> Topology:
        """Run the remaining checks and return the topology.

        Raises:
            TopologyError: there is no spout; a bolt has neither inputs nor ticks; an input names an unknown component,
                stream or field; a component cannot be pickled.
        """
        if not any(d.kind == ComponentKind.COMPONENT_KIND_SPOUT for d in self._components.values()):
            raise TopologyError("the topology has no spout; add one with set_spout")
        for definition in self._components.values():
            self._check_inputs(definition)
        for definition in self._components.values():
            _check_pickles(definition)
        components = {component_id: definition.copy() for component_id, definition in self._components.items()}
        if any(isinstance(definition.component, StatefulBolt) for definition in components.values()):
            from tupletree._checkpoints.wiring import with_checkpoints  # needed by stateful topologies only

            components = with_checkpoints(components)
        return Topology(components, worker_hooks=self._worker_hooks)

    def _add(self, component_id: str, component: Any, parallelism: int, kind: ComponentKind) -> Definition:
        _check_id(component_id)
        if component_id in self._components:
            _refuse(component_id, f"component id '{component_id}' is in use already", "id")
        _check_kind(component_id, component, kind)
        chained = component if isinstance(component, ChainedSpout) else None
        if chained is not None:
            component = chained.spout
        title = "spout" if kind == ComponentKind.COMPONENT_KIND_SPOUT else "bolt"
        check_calls(f"{title} '{component_id}'", component_id, component)
        definition = Definition(component_id, kind, component, parallelism, _declared(component_id, component))
        if chained is not None:
            definition.chained, definition.outputs = chained.attach(component_id, definition.outputs)
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or not 1 <= parallelism <= MAX_TASKS:
            _refuse(
                component_id,
                f"{definition.title}: parallelism must be a whole number of at least 1 and at most {MAX_TASKS}, "
                f"not {shown(parallelism)}",
                "parallelism",
            )
        if kind == ComponentKind.COMPONENT_KIND_SPOUT and not definition.outputs and definition.chained is None:
            _refuse(
                component_id,
                f"{definition.title} declares no output fields; set 'outputs' on {type(component).__name__}",
                "outputs",
            )
        ComponentDeclarer(definition, self._components.get).add_configurations(_own_conf(definition))
        self._components[component_id] = definition
        return definition

    def _check_inputs(self, definition: Definition) -> None:
        lives_on_ticks = definition.conf.get("topology.tick.tuple.freq.secs") is not None
        if definition.kind == ComponentKind.COMPONENT_KIND_BOLT and not definition.inputs and not lives_on_ticks:
            _refuse(definition.id, f"{definition.title} has no input; give it a grouping", "inputs")
        for subscription in definition.inputs:
            emitter = self._components.get(subscription.source)
            if emitter is None:
                known = ", ".join(sorted(self._components))
                _refuse(
                    definition.id,
                    f"{definition.title}: unknown source '{subscription.source}'; the topology has {known}",
                    subscription.source,
                )
            check_input(definition, subscription, emitter)
        check_sides(definition)


def check_topology_name(name: object) -> str:
    """Return the name if it is a valid topology name.

    Raises:
        UsageError: the name is not 1 to 100 letters, digits, '-' and '_', or starts with '-'.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"topology name {shown(name)} must consist of at most 100 letters, digits, '-' and '_', "
            "not starting with '-'"
        )
    return name


def _check_id(component_id: object) -> None:
    fault = component_id_fault(component_id)
    if fault:
        raise TopologyError(f"a component id {fault}", component=str(component_id), field="id")
    assert isinstance(component_id, str)
    if component_id.startswith(RESERVED_PREFIXES):
        _refuse(component_id, f"component id '{component_id}' is reserved; ids must not start with '__' or '$'", "id")


def _check_kind(component_id: str, component: object, kind: ComponentKind) -> None:
    wanted: tuple[type, ...]
    if kind == ComponentKind.COMPONENT_KIND_SPOUT:
        wanted, title, expected = (Spout,), "spout", "a Spout"
    else:
        wanted, title, expected = (Bolt, BasicBolt), "bolt", "a Bolt or BasicBolt"
    if isinstance(component, wanted):
        return
    if isinstance(component, type) and issubclass(component, wanted):
        fault = f"takes an object, not the class {component.__name__}; write {component.__name__}(…)"
    else:
        fault = f"must be {expected}, not {type(component).__name__}"
        if any(base.__module__.startswith("tupletree.transactional.") for base in type(component).__mro__):
            fault += "; add it to a TransactionalTopologyBuilder"
    _refuse(component_id, f"{title} '{component_id}' {fault}", "component")


def _own_conf(definition: Definition) -> Mapping[str, Any]:
    try:
        conf = configuration_of(definition.component)
    except TopologyError:
        raise
    except Exception as error:  # a sentence of ours, or of user code
        said = "" if isinstance(error, UsageError) else f"component_configuration raised {type(error).__name__}: "
        _refuse(definition.id, f"{definition.title}: {said}{error}", "component_configuration")
    return conf


def _declared(component_id: str, component: Component) -> dict[str, Stream]:
    declarer = FieldsDeclarer(component_id)
    try:
        component.declare_output_fields(declarer)
    except TopologyError:
        raise
    except Exception as error:  # user code
        fault = f"component '{component_id}': declare_output_fields raised {type(error).__name__}: {error}"
        raise TopologyError(fault, component=component_id, field="outputs") from error
    return declarer.streams


def _encode(definition: Definition, references: Sequence[str | bytes] | None = None) -> topology_pb2.ComponentSpec:
    """Return a component as sent to a cluster. ``references``: to marked classes; None: without the pickled object."""
    try:
        conf_json = encode_conf(definition.conf) if definition.conf else ""
    except ConfigError as error:
        raise TopologyError(f"{definition.title}: {error}", component=definition.id, field="configuration") from None
    return topology_pb2.ComponentSpec(
        id=definition.id,
        kind=definition.kind,
        object=b"" if references is None else _pickle(definition, carried(definition.sent, references)),
        parallelism=definition.parallelism,
        tasks=definition.tasks,
        conf_json=conf_json,
        keeps_state=keeps_state(definition.component),
        fixed_tasks=keeps_state(definition.component) and not is_divisible(definition.component),
        checks_keys=isinstance(definition.component, StatefulBolt) and not has_known_keys(definition.component),
        state_form=state_form(definition.component),
        state_version=definition.component.state_version if isinstance(definition.component, StatefulBolt) else 0,
        is_blocking=bool(definition.component.blocking),
        outputs=[
            topology_pb2.StreamSpec(id=stream.id, fields=stream.fields, direct=stream.direct)
            for stream in definition.outputs.values()
        ],
        inputs=[
            topology_pb2.InputSpec(
                source=subscription.source,
                stream=subscription.stream,
                grouping=subscription.grouping,
                fields=subscription.fields,
                custom=b""
                if references is None or (custom := subscription.custom) is None
                else _pickle(definition, custom),
            )
            for subscription in definition.inputs
        ],
    )


def _pickle(definition: Definition, value: object) -> bytes:
    try:
        return _pickling.dumps(value)
    except Exception as error:  # whatever user classes raise
        _refuse_unpicklable(definition, value, error)


class _Discard(io.RawIOBase):
    """A sink for trial pickles."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes


def _pickle_error(value: object) -> Exception | None:
    try:
        _pickling.dump(value, _Discard())
    except Exception as error:  # whatever user classes raise
        return error
    return None


def _check_pickles(definition: Definition) -> None:
    if definition.conf:
        _encode(definition)
    own = [definition.component] if definition.chained is None else [definition.component, definition.chained.chain]
    for value in [*own, *(subscription.custom for subscription in definition.inputs)]:
        error = _pickle_error(value)
        if error is not None:
            _refuse_unpicklable(definition, value, error)


def _refuse_unpicklable(definition: Definition, value: object, error: Exception) -> NoReturn:
    """Raise a TopologyError that names the attribute that cannot be pickled, or else the class."""
    owner = type(value).__name__
    for attribute, held in getattr(value, "__dict__", {}).items():
        cause = _pickle_error(held)
        if cause is not None and isinstance(held, Component):
            _refuse_unpicklable(definition, held, cause)  # a user component wrapped in one of ours
        if cause is not None:
            raise TopologyError(
                f"{definition.title} cannot be copied to its tasks: {owner}.{attribute} "
                f"({type(held).__name__}) cannot be pickled: {cause}; create it in open or prepare",
                component=definition.id,
                field=attribute,
            ) from error
    raise TopologyError(
        f"{definition.title} cannot be copied to its tasks: {owner} cannot be pickled: {error}",
        component=definition.id,
        field="component",
    ) from error


def _refuse(component_id: str, fault: str, field: str) -> NoReturn:
    raise TopologyError(fault, component=component_id, field=field)
