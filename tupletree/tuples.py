"""The tuple that a bolt receives.

A tuple holds its values, its origin, and the tuple trees it is part of. For tracking, the tuple carries for every tree
the tree's *root id* and its own *edge id* in that tree, both random 64-bit numbers.

Values are shared, not copied, between tasks of one worker: treat them as immutable.

The tuples of a batch share its columns. If a basic bolt, or a bolt with ``execute_batch``, keeps a tuple after the
call, the values of the whole batch, some hundred tuples, stay in memory; keeping ``tup.values`` avoids this. Any other
``Bolt``, which may hold tuples until it acks them, receives tuples with their own lists of values.
"""

from __future__ import annotations  # pure

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

SYSTEM_COMPONENT = "__system"
TICK_STREAM = "__tick"

Anchors = Sequence[tuple[int, int]]
"""The (root id, edge id) pairs of one tuple."""


R = TypeVar("R")


@functools.lru_cache(maxsize=1024)
def record_fields(record: Any) -> tuple[str, ...]:
    """Return the names of the fields of a NamedTuple or dataclass, in order.

    Raises:
        TypeError: ``record`` is neither.
    """
    if isinstance(record, type) and issubclass(record, tuple) and hasattr(record, "_fields"):
        return tuple(record._fields)
    if isinstance(record, type) and dataclasses.is_dataclass(record):
        return tuple(field.name for field in dataclasses.fields(record) if field.init)
    raise TypeError(f"{record!r} is neither a NamedTuple nor a dataclass")


class Origin:
    """The origin of tuples: one object for all tuples of a (source task, stream).

    ``siblings``: the origins of the same stream of the component's tasks, from task ``first_task`` on (``relate``).
    """

    __slots__ = ("component", "fields", "first", "first_task", "index", "siblings", "stream", "task")

    def __init__(self, component: str, task: int, stream: str, fields: Sequence[str]) -> None:
        self.component = component
        self.task = task
        self.stream = stream
        self.fields = tuple(fields)
        self.first = self.fields[0] if self.fields else None
        self.index = {name: position for position, name in enumerate(self.fields)}
        self.first_task = task
        self.siblings: list[Origin] = [self]

    def of_task(self, task: int) -> Origin:
        """Return the origin of the same stream of another task, which must be related."""
        return self.siblings[task - self.first_task]

    def new_tuple(self, values: list[Any] | None, root: int, edge: int, pairs: Anchors | None) -> Tuple:
        """Return a tuple of this origin, as ``Tuple(…)`` would. In the compiled module, the ids are never boxed."""
        tup: Tuple = Tuple.__new__(Tuple)
        tup._values = values
        tup._root = root
        tup._edge = edge
        tup._origin = self
        tup._pairs = pairs
        tup._children = 0
        tup._is_settled = False
        return tup

    def tuple_at(self, columns: list[list[Any]], at: int, root: int, edge: int, pairs: Anchors | None) -> Tuple:
        """Return row ``at`` of a batch of this origin as a tuple that shares the batch's columns."""
        tup = self.new_tuple(None, root, edge, pairs)
        tup._columns = columns
        tup._at = at
        return tup


def relate(origins: Sequence[Origin]) -> None:
    """Let origins of one stream, of several tasks of a component, find each other."""
    first_task = min(origin.task for origin in origins)
    siblings = [origins[0]] * (max(origin.task for origin in origins) + 1 - first_task)
    for origin in origins:
        siblings[origin.task - first_task] = origin
        origin.siblings, origin.first_task = siblings, first_task


class MessageId:
    """The trees that a tuple is part of: a read-only mapping from root id to edge id."""

    __slots__ = ("anchors",)

    def __init__(self, anchors: Anchors) -> None:
        self.anchors = dict(anchors)

    def __repr__(self) -> str:
        trees = ", ".join(f"{root:#018x}: {edge:#018x}" for root, edge in self.anchors.items())
        return f"MessageId({{{trees}}})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageId) and other.anchors == self.anchors

    def __hash__(self) -> int:
        return hash(frozenset(self.anchors.items()))


class Tuple:
    """A tuple received by a bolt.

    ``tup["field"]`` and ``tup[0]`` read a value; ``.values`` is the list of all values and ``.fields`` their names.
    Two tuples are equal only if they are the same object, so that a bolt may keep its inputs in sets and dicts.
    """

    # Nearly all tuples are in one tree (_root and _edge) or in none (_root 0). A tuple in several trees has _root 0 and
    # its pairs in _pairs. _children is the XOR of the edges anchored to the tuple so far.
    # The values are row _at of _columns until a list of them is first needed, and _values from then on.
    # _is_settled: acked or failed; only where a checkpoint must know (bolt_task.py).
    __slots__ = ("_at", "_children", "_columns", "_edge", "_is_settled", "_origin", "_pairs", "_root", "_values")

    def __init__(self, values: list[Any], root: int, edge: int, origin: Origin, pairs: Anchors | None = None) -> None:
        self._columns: list[list[Any]]
        self._at: int
        self._values: list[Any] | None = values
        self._root = root
        self._edge = edge
        self._origin = origin
        self._pairs = pairs
        self._children = 0
        self._is_settled = False

    def __getitem__(self, key: str | int) -> Any:
        """Return the value of a field, by name or position.

        Raises:
            KeyError: there is no field with that name. The message names the component, the stream and its fields.
            IndexError: there is no such position.
        """
        if isinstance(key, str):
            return self._named(key)
        return self.values[key]

    def _named(self, field: str) -> Any:
        origin = self._origin
        try:
            position = 0 if field is origin.first else origin.index[field]
        except KeyError:
            raise self._unknown(field) from None
        if self._values is None:
            return self._columns[position][self._at]
        return self._values[position]

    def _unknown(self, field: str) -> KeyError:
        origin = self._origin
        stream = f"stream '{origin.stream}' of component '{origin.component}'"
        return KeyError(f"no field '{field}' in a tuple of {stream}; its fields: {', '.join(origin.fields) or 'none'}")

    @property
    def values(self) -> list[Any]:
        """All values, in the order of the fields."""
        if self._values is None:
            self._values = self._row()
        return self._values

    @values.setter
    def values(self, values: list[Any]) -> None:
        self._values = values

    def _row(self) -> list[Any]:
        columns, at = self._columns, self._at
        count = len(columns)
        if count == 1:
            column = columns[0]
            return [column[at]]
        row: list[Any] = [None] * count  # allocated at its final size, instead of growing a list per tuple
        for position in range(count):
            column = columns[position]
            row[position] = column[at]
        return row

    def get(self, field: str, default: Any = None) -> Any:
        """Return the value of ``field``, or ``default`` if the tuple has no such field."""
        position = self._origin.index.get(field)
        return default if position is None else self.values[position]

    def select(self, fields: Sequence[str]) -> list[Any]:
        """Return the values of the given fields, in the given order."""
        return [self[name] for name in fields]

    def to(self, record: Callable[..., R]) -> R:
        """Return the values as an object of a NamedTuple or dataclass, whose fields are looked up by name.

        Raises:
            KeyError: the tuple lacks a field. The message names the component, the stream and its fields.
            TypeError: ``record`` is neither a NamedTuple nor a dataclass.
        """
        return record(**{name: self[name] for name in record_fields(record)})

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, field: object) -> bool:
        return field in self._origin.index

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the values, in order."""
        return self._origin.fields

    @property
    def source_component(self) -> str:
        """The id of the component that emitted the tuple."""
        return self._origin.component

    @property
    def source_task(self) -> int:
        """The id of the task that emitted the tuple."""
        return self._origin.task

    @property
    def source_stream(self) -> str:
        """The stream on which the tuple was emitted."""
        return self._origin.stream

    @property
    def is_tick(self) -> bool:
        """True if this is a tick tuple (``topology.tick.tuple.freq.secs``)."""
        return self._origin.stream == TICK_STREAM and self._origin.component == SYSTEM_COMPONENT

    @property
    def message_id(self) -> MessageId:
        """The trees that the tuple is part of; empty for an unanchored tuple."""
        return MessageId(self.anchors)

    @property
    def anchors(self) -> Anchors:
        """The (root id, edge id) pairs of the trees that the tuple is part of."""
        if self._root:
            return ((self._root, self._edge),)
        return self._pairs or ()

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in zip(self.fields, self.values, strict=False))
        return f"Tuple({self.source_component}:{self.source_task}/{self.source_stream}: {named})"
