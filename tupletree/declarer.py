"""Return values of ``set_spout`` and ``set_bolt``: chainable settings and groupings of one component.

Each call is checked as early as possible: a grouping at once if its source is already set, otherwise when the topology
is created (a bolt may name a source that is set later, which makes cycles possible).
"""

from __future__ import annotations  # pure

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, Self, get_type_hints

from tupletree._definition import Definition, Input
from tupletree._signatures import check_calls
from tupletree.backoff import Backoff
from tupletree.config import validate_component
from tupletree.errors import ConfigError, TopologyError, UsageError
from tupletree.grouping import CustomGrouping, grouping_name
from tupletree.outputs import DEFAULT_STREAM, FieldsDeclarer, Stream
from tupletree.replaying_spout import LETTER_FIELDS, LETTERS, ReplayingSpout
from tupletree.retrying_spout import RetryingSpout
from tupletree.tuples import record_fields
from tupletree.v1.topology_pb2 import GroupingKind

_WITH_FIELDS = (GroupingKind.GROUPING_KIND_FIELDS, GroupingKind.GROUPING_KIND_PARTIAL_KEY)


Lookup = Callable[[str], Definition | None]


class ComponentDeclarer:
    """Settings that spouts and bolts share. Every method returns the declarer; every mistake is a TopologyError."""

    def __init__(self, definition: Definition, lookup: Lookup) -> None:
        self._definition = definition
        self._lookup = lookup

    def set_num_tasks(self, tasks: int) -> Self:
        """Set the number of tasks of the component at submission: at least the number of executors."""
        return self.add_configuration("topology.tasks", tasks)

    def set_max_task_parallelism(self, tasks: int) -> Self:
        """Cap tasks and executors of this component."""
        return self.add_configuration("topology.max.task.parallelism", tasks)

    def set_max_spout_pending(self, trees: int | None) -> Self:
        """Cap the pending tuple trees of each task of this spout: at the cap, ``next_tuple`` is not called."""
        return self.add_configuration("topology.max.spout.pending", trees)

    def set_debug(self, on: bool = True) -> Self:
        """Log every tuple this component emits."""
        return self.add_configuration("topology.debug", on)

    def set_blocking(self, on: bool = True) -> Self:
        """Give each executor its own thread, for a component that sleeps or waits."""
        return self.add_configuration("topology.blocking", on)

    def set_cpu_load(self, percent: float) -> Self:
        """Set the processor time that each executor needs, in percent of a processor, for the resource scheduler."""
        return self.add_configuration("topology.component.cpu.pcore.percent", percent)

    def set_memory_load(self, megabytes: float) -> Self:
        """Set the memory that each executor needs, for the resource scheduler. Workers are ended far beyond."""
        return self.add_configuration("topology.component.resources.onheap.memory.mb", megabytes)

    def add_resource(self, name: str, amount: float) -> Self:
        """Add a named resource, such as "gpu", of which each executor needs ``amount``: for the resource scheduler."""
        known = self._definition.conf.get("topology.component.resources.map", {})
        return self.add_configuration("topology.component.resources.map", {**known, name: amount})

    def add_configuration(self, key: str, value: Any) -> Self:
        """Set one key of the component's own configuration."""
        return self.add_configurations({key: value})

    def add_configurations(self, conf: Mapping[str, Any]) -> Self:
        """Set several keys of the component's own configuration."""
        definition = self._definition
        for key, value in conf.items():
            try:
                validate_component({key: value})
            except ConfigError as error:
                raise TopologyError(f"{definition.title}: {error}", component=definition.id, field=str(key)) from None
            if key == "topology.tasks" and value is not None and value < definition.parallelism:
                raise TopologyError(
                    f"{definition.title}: {value} tasks cannot occupy {definition.parallelism} executors; "
                    "there must be at least as many tasks as executors",
                    component=definition.id,
                    field="topology.tasks",
                )
            definition.conf[key] = value
        return self


Source = str | ComponentDeclarer
"""The source of an input: a component's id, or the return value of ``set_spout`` or ``set_bolt``."""


def _id_of(source: Source) -> str:
    return source._definition.id if isinstance(source, ComponentDeclarer) else source


class SpoutDeclarer(ComponentDeclarer):
    """Settings of a spout. A spout has no inputs."""

    _has_retry = False

    def __init__(self, definition: Definition, lookup: Lookup) -> None:
        super().__init__(definition, lookup)
        retry = getattr(definition.component, "retry", None)
        if isinstance(definition.component, ReplayingSpout) and not isinstance(retry, Backoff):
            self._refuse_retry(f"its retry is {retry!r}; a Backoff was expected, such as Backoff(max_attempts=3)")

    def set_retry(self, retry: Backoff) -> Self:
        """Emit failed messages again, after pauses; after the last attempt a message is given up.

        For every spout that emits with message ids. The spout gets ``ack`` for a message that is processed or given up,
        and never ``fail``. Failures by a bolt and timeouts count as attempts. A message whose tree was lost with a
        worker or an acker is always emitted again. A message given up is reported as an error, unless there are dead
        letters. No new messages are asked for while 100,000 are stored, or ``max_ahead`` if the spout has an attribute
        of this name.

        Raises:
            TopologyError: ``retry`` is not a Backoff, or the spout's rows have no message ids.
        """
        if not isinstance(retry, Backoff):
            self._refuse_retry(f"set_retry takes a Backoff, not {retry!r}")
        self._replaying().retry = retry
        self._has_retry = True
        return self

    def set_dead_letters(self, stream: str) -> Self:
        """Emit messages that are given up on a stream of this spout, which is declared here with ``LETTER_FIELDS``.

        A letter is tracked: the message is acked at its source when the letter's own tree is complete. There are 5
        attempts (``LETTERS``) if the spout itself has no limit. A ``set_retry``, before or after, holds as it is: with
        unlimited attempts, only a final failure makes a letter. Without a subscriber, letters are dropped.

        Raises:
            TopologyError: the stream is declared already, or its id is invalid; or as for ``set_retry``.
        """
        definition = self._definition
        spout = self._replaying()
        declarer = FieldsDeclarer(definition.id)
        declarer.streams.update(definition.outputs)
        declarer.declare_stream(stream, LETTER_FIELDS)
        definition.outputs = declarer.streams
        spout.dead_letters = stream
        if spout.retry.max_attempts is None and not self._has_retry:
            spout.retry = LETTERS
        return self

    def _replaying(self) -> ReplayingSpout:
        """Return the spout as a ReplayingSpout: a copy, so that the user's own object does not change."""
        given = self._definition.component
        try:
            spout = copy.copy(given) if isinstance(given, ReplayingSpout) else RetryingSpout(given, LETTERS)
        except UsageError as error:
            self._refuse_retry(str(error))
        self._definition.component = spout
        return spout

    def _refuse_retry(self, fault: str) -> NoReturn:
        definition = self._definition
        raise TopologyError(f"{definition.title}: {fault}", component=definition.id, field="retry")


class BoltDeclarer(ComponentDeclarer):
    """Settings and inputs of a bolt. A bolt may subscribe to any number of streams, once to each."""

    def shuffle_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Spread the stream's tuples evenly over this bolt's tasks."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_SHUFFLE)

    def fields_grouping(self, source: Source, fields: str | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples with equal values in ``fields`` to the same task."""
        return self._by_fields(GroupingKind.GROUPING_KIND_FIELDS, source, fields, stream)

    def partial_key_grouping(self, source: Source, fields: str | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Group by fields with two candidate tasks per key: each tuple goes to the less used task."""
        return self._by_fields(GroupingKind.GROUPING_KIND_PARTIAL_KEY, source, fields, stream)

    def all_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Copy every tuple to every task."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_ALL)

    def global_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Send the whole stream to the task with the lowest id."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_GLOBAL)

    def none_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Declare that any task may receive the stream's tuples."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_NONE)

    def direct_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Let the emitter name the receiving task. Required for streams declared direct, and allowed only for them."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_DIRECT)

    def local_or_shuffle_grouping(self, source: Source, stream: str = DEFAULT_STREAM) -> Self:
        """Shuffle among the tasks in the emitter's worker, or among all tasks if that worker runs none."""
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_LOCAL_OR_SHUFFLE)

    def custom_grouping(self, source: Source, grouping: CustomGrouping, stream: str = DEFAULT_STREAM) -> Self:
        """Let a custom object choose the receiving tasks."""
        if not isinstance(grouping, CustomGrouping):
            hint = ", an object rather than the class" if isinstance(grouping, type) else ""
            where = f"custom grouping on '{_id_of(source)}'"
            self._refuse(f"{where} takes a CustomGrouping{hint}, not {grouping!r}", "grouping")
        check_calls(f"{self._definition.title}, custom grouping on '{_id_of(source)}'", self._definition.id, grouping)
        return self._subscribe(source, stream, GroupingKind.GROUPING_KIND_CUSTOM, custom=grouping)

    def _by_fields(self, kind: GroupingKind, source: Source, fields: str | Sequence[str], stream: str) -> Self:
        name = f"{grouping_name(kind)} grouping on '{_id_of(source)}'"
        if not isinstance(fields, Sequence):
            self._refuse(f"{name} takes field names, not {fields!r}", "fields")
        fields = (fields,) if isinstance(fields, str) and fields else fields
        if not fields:
            self._refuse(f"{name} names no field; for all tuples to one task use global_grouping", "fields")
        if len(set(fields)) < len(fields):
            self._refuse(f"{name} names a field twice in {list(fields)}", "fields")
        return self._subscribe(source, stream, kind, tuple(fields))

    def _subscribe(
        self, component: Source, stream: str, grouping: GroupingKind, fields: tuple[str, ...] = (), custom: Any = None
    ) -> Self:
        source = _id_of(component)
        if not isinstance(source, str) or not source:
            self._refuse(f"a grouping's source is the id of a component, not {source!r}", "source")
        if not isinstance(stream, str) or not stream:
            self._refuse(f"a grouping's stream is the id of a stream, not {stream!r}", "stream")
        if any(other.source == source and other.stream == stream for other in self._definition.inputs):
            self._refuse(f"subscribes to stream '{stream}' of '{source}' twice", source)
        emitter = self._lookup(source)
        if isinstance(component, ComponentDeclarer) and emitter is not component._definition:
            self._refuse(f"subscribes to '{source}' of another topology", source)
        subscription = Input(source, stream, grouping, fields, custom)
        if emitter is not None:
            check_input(self._definition, subscription, emitter)
        self._definition.inputs.append(subscription)
        return self

    def _refuse(self, fault: str, field: str) -> NoReturn:
        definition = self._definition
        raise TopologyError(f"{definition.title}: {fault}", component=definition.id, field=field)


def check_input(bolt: Definition, subscription: Input, emitter: Definition) -> None:
    """Check a subscription against the streams its source declares. Raises TopologyError naming bolt and field."""
    stream = emitter.outputs.get(subscription.stream)
    grouping = grouping_name(subscription.grouping)
    if stream is None:
        declared = ", ".join(f"'{name}'" for name in emitter.outputs) or "none at all"
        raise TopologyError(
            f"{bolt.title}: {grouping} grouping on stream '{subscription.stream}' of '{emitter.id}', "
            f"which is not one of its declared streams ({declared})",
            component=bolt.id,
            field=subscription.stream,
        )
    if stream.direct != (subscription.grouping == GroupingKind.GROUPING_KIND_DIRECT):
        nature = "is declared direct: use direct_grouping" if stream.direct else "is not declared direct"
        raise TopologyError(
            f"{bolt.title}: {grouping} grouping cannot be used on stream '{stream.id}' of '{emitter.id}', which "
            f"{nature}",
            component=bolt.id,
            field=stream.id,
        )
    if stream.id in getattr(bolt.component, "control_streams", ()):
        return
    for name in getattr(bolt.component, "required_fields", ()):  # of a sink, a windowed bolt or a KeyedProcess
        if name not in stream.fields:
            raise TopologyError(
                f"{bolt.title}: needs field '{name}' of every input, which stream '{stream.id}' of '{emitter.id}' "
                f"does not have (its fields: {', '.join(stream.fields) or 'none'})",
                component=bolt.id,
                field=str(name),
            )
    _check_record(bolt, stream, emitter)
    _check_key(bolt, subscription)
    for name in subscription.fields:
        if name not in stream.fields:
            raise TopologyError(
                f"{bolt.title}: {grouping} grouping on field '{name}', which stream '{stream.id}' of '{emitter.id}' "
                f"does not have (its fields: {', '.join(stream.fields) or 'none'})",
                component=bolt.id,
                field=str(name),
            )


def check_sides(bolt: Definition) -> None:
    """Check that the inputs of a join are exactly its two sides. Raises TopologyError naming bolt and input."""
    sides: Mapping[str, list[tuple[str, str]]] = getattr(bolt.component, "input_streams", {})
    controls = getattr(bolt.component, "control_streams", ())
    inputs = [(one.source, one.stream) for one in bolt.inputs if one.stream not in controls]
    known = [(role, one) for role, streams in sides.items() for one in streams]
    for role, side in known:
        if side not in inputs:
            fault = f"{role} is {_side(side)}, which is not an input of the bolt: give it a grouping"
            raise TopologyError(f"{bolt.title}: {fault}", component=bolt.id, field=role)
    if sides and (others := [one for one in inputs if one not in [side for _, side in known]]):
        fault = (
            f"{_side(others[0])} is an input, and the join has only {' and '.join(_side(side) for _, side in known)}"
        )
        raise TopologyError(f"{bolt.title}: {fault}", component=bolt.id, field=others[0][0])


def _side(side: tuple[str, str]) -> str:
    component, stream = side
    return f"'{component}'" if stream == DEFAULT_STREAM else f"stream '{stream}' of '{component}'"


_KEEPS_KEYS: Final = (
    GroupingKind.GROUPING_KIND_GLOBAL,
    GroupingKind.GROUPING_KIND_DIRECT,
    GroupingKind.GROUPING_KIND_CUSTOM,
)
_PLACES_KEYS: Final = (GroupingKind.GROUPING_KIND_FIELDS, GroupingKind.GROUPING_KIND_GLOBAL)


def _check_key(bolt: Definition, subscription: Input) -> None:
    """Check that a grouping can send all tuples of a key of a KeyedProcess to one task."""
    key = getattr(bolt.component, "key_fields", ())
    if not key or bolt.tasks == 1 or subscription.grouping in _KEEPS_KEYS:
        return
    is_fit = subscription.grouping == GroupingKind.GROUPING_KIND_FIELDS and set(subscription.fields) <= set(key)
    placed = [one for one in bolt.inputs if one.grouping in _PLACES_KEYS]  # not those of control streams
    others = [one for one in placed if (one.grouping, one.fields) != (subscription.grouping, subscription.fields)]
    if not is_fit or others:
        torn = [subscription, *others[:1]] if is_fit else [subscription]
        raise TopologyError(
            f"{bolt.title}: {' and '.join(map(_grouping, torn))} {'send' if is_fit else 'sends'} tuples of one key to "
            f"several tasks: use a fields grouping by {', '.join(map(repr, key))}{' on each' if is_fit else ''}",
            component=bolt.id,
            field=subscription.stream,
        )


def _grouping(subscription: Input) -> str:
    fields = f" by {', '.join(map(repr, subscription.fields))}" if subscription.fields else ""
    return f"{grouping_name(subscription.grouping)} grouping{fields} on '{subscription.source}'"


def _check_record(bolt: Definition, stream: Stream, emitter: Definition) -> None:
    """Check a stream against the record that a bolt declares as its ``inputs``: names, and types as far as known."""
    wanted = getattr(type(bolt.component), "inputs", None)
    if wanted is None:
        return
    of_stream = f"stream '{stream.id}' of '{emitter.id}'"
    try:
        names = record_fields(wanted)
    except TypeError as error:
        raise TopologyError(f"{bolt.title}: inputs: {error}", component=bolt.id, field="inputs") from None
    given, needed = _types(stream.record), _types(wanted)
    for name in names:
        if name not in stream.fields:
            fault = f"which {of_stream} does not have (its fields: {', '.join(stream.fields) or 'none'})"
        elif name in given and name in needed and given[name] != needed[name]:
            fault = f"which is {_shown(needed[name])} in {wanted.__name__} and {_shown(given[name])} in {of_stream}"
        else:
            continue
        raise TopologyError(
            f"{bolt.title}: its inputs need field '{name}' of {wanted.__name__}, {fault}", component=bolt.id, field=name
        )


def _types(record: type | None) -> Mapping[str, Any]:
    """Return the types of a record's fields; empty if they cannot be resolved, as for names local to a function."""
    try:
        return get_type_hints(record) if record is not None else {}
    except Exception:  # whatever annotations raise
        return {}


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
