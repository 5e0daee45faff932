"""Dataclasses of answers about states: entries, decoded as far as this process knows their classes."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tupletree._wire.codec import decode_value
from tupletree._wire.plain_form import shown_form
from tupletree.errors import ProtocolError
from tupletree.v1 import topology_pb2


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value of a class that is not known here. ``plain``: what JSON shows of the value (docs/rest.md)."""

    plain: Any


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A key and its value.

    Attributes:
        task: the index of the task in its component.
        key: the key.
        value: the value; an UnknownValue if its class is not known here; None if the value was left out.
        size: the bytes of the encoded value.
        is_left_out: the answer would have been too large with the value.
        encoded_key, encoded_value: as stored; what does not change when a class is known.
    """

    task: int
    key: Any
    value: Any
    size: int
    is_left_out: bool
    encoded_key: bytes = field(repr=False)
    encoded_value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """Entries of a component's state, by task and then by encoded key.

    Attributes:
        entries: the entries that were found. Several tasks can have one key.
        committed: the checkpoint of the values by index of the task, None before the first one. Live values: the last
            checkpoint before.
        next: pass it as ``after`` to get the entries that follow; "" at the end.
    """

    entries: tuple[StateEntry, ...]
    committed: Mapping[int, int | None]
    next: str = ""


@dataclass(frozen=True, slots=True)
class StateWrite:
    """Changes of a component's state, which are committed.

    Attributes:
        put: the number of keys that were set.
        deleted: the number of keys that were deleted; a key counts for each task that had it.
        committed: by index of the task, the last checkpoint with changes of it.
        put_in: the indexes of the tasks in which keys were set.
    """

    put: int = 0
    deleted: int = 0
    committed: Mapping[int, int] = field(default_factory=dict)
    put_in: frozenset[int] = frozenset()

    def __add__(self, other: StateWrite) -> StateWrite:
        return StateWrite(
            self.put + other.put,
            self.deleted + other.deleted,
            {**self.committed, **other.committed},
            self.put_in | other.put_in,
        )


def write_of(tasks: Iterable[topology_pb2.StateWritten]) -> StateWrite:
    """Return what tasks have changed together."""
    found = list(tasks)
    return StateWrite(
        sum(task.put for task in found),
        sum(task.deleted for task in found),
        {task.index: task.committed for task in found if task.HasField("committed")},
        frozenset(task.index for task in found if task.put),
    )


def answer_of(tasks: Iterable[topology_pb2.TaskState], following: str = "") -> StateAnswer:
    """Return the answer that the states of tasks make together."""
    entries: list[StateEntry] = []
    committed: dict[int, int | None] = {}
    for task in tasks:
        committed[task.index] = task.committed if task.HasField("committed") else None
        entries += [_entry(task.index, one) for one in task.entries]
    return StateAnswer(tuple(entries), committed, following)


def _entry(task: int, one: topology_pb2.StateEntry) -> StateEntry:
    is_left_out = not one.value
    value = None if is_left_out else _decoded(one.value)
    return StateEntry(task, _decoded(one.key), value, one.size, is_left_out, one.key, one.value)


def _decoded(data: bytes) -> Any:
    try:
        return decode_value(data)
    except ProtocolError:
        return UnknownValue(shown_form(data))
