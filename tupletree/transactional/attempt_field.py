"""The attempt as the first value of every tuple, named by a component or carried for it.

A component that declares ``attempt`` as the first field of its streams *names* the attempt: its rows begin with it, and
it sees the attempt as the first value of the tuples that it receives. For any other component the framework *carries*
the attempt: puts it before each row, and removes it from each tuple that the component receives. On the wire both are
the same: the attempt is the first value of every tuple.

A bolt that declares no outputs sees the attempt if the sender of the tuple names it and is not part of the library.
"""

from __future__ import annotations  # pure

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from tupletree.attempt import TransactionAttempt
from tupletree.context import TopologyContext
from tupletree.errors import TopologyError
from tupletree.grouping import CustomGrouping
from tupletree.outputs import FieldsDeclarer
from tupletree.tuples import Origin

ATTEMPT = "attempt"
"""The first field of every stream of a transactional topology."""

Carried = Mapping[str, tuple[str, ...]]
"""The declared fields of each stream of a component for which the attempt is carried; empty if it has no streams."""


def carry_attempt(declarer: FieldsDeclarer) -> Carried | None:
    """Put the attempt before the declared fields, unless the component names it; None if it does.

    Raises:
        TopologyError: a stream has no field, has the attempt in another place than the first, or has it while another
            stream of the component has not.
    """
    streams = declarer.streams
    for stream in streams.values():
        if not stream.fields:
            _refuse(declarer, f"stream '{stream.id}' declares no field; at least one was expected", stream.id)
        if ATTEMPT in stream.fields[1:]:
            _refuse(
                declarer,
                f"stream '{stream.id}' declares '{ATTEMPT}' after other fields; the name is that of the transaction "
                f"attempt: leave it out, which is usual, or declare it first",
                stream.id,
            )
    named = [stream.id for stream in streams.values() if stream.fields[0] == ATTEMPT]
    if len(named) == len(streams) and named:
        return None
    if named:
        other = next(id for id in streams if id not in named)
        _refuse(
            declarer,
            f"stream '{named[0]}' declares '{ATTEMPT}' and stream '{other}' does not; leave it out of all streams, "
            f"which is usual, or declare it first in all",
            other,
        )
    carried = {stream.id: stream.fields for stream in streams.values()}
    for id, fields in carried.items():
        streams[id] = dataclasses.replace(streams[id], fields=(ATTEMPT, *fields))
    return carried


def plain_row(values: Any) -> Any:
    """Return an iterable as a list. Lists and tuples, objects of dataclasses, and what is no row are unchanged."""
    if type(values) is list or type(values) is tuple or dataclasses.is_dataclass(values):
        return values
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        return values
    return list(values)


def without_attempt(values: Any) -> list[Any]:
    """Return the values of an emitted row that a replay of its batch has too: all but a leading attempt."""
    if dataclasses.is_dataclass(values):
        values = [getattr(values, field.name) for field in dataclasses.fields(values)]
    return list(values[1:] if values and type(values[0]) is TransactionAttempt else values)


def without_first_field(origin: Origin) -> Origin:
    """Return the origin of the tuples that a component receives for which the attempt is carried."""
    return Origin(origin.component, origin.task, origin.stream, origin.fields[1:])


class GroupingWithoutAttempt(CustomGrouping):
    """A user's grouping on a stream whose receiver does not see the attempt."""

    def __init__(self, grouping: CustomGrouping) -> None:
        self.grouping = grouping

    def prepare(self, context: TopologyContext, stream: str, target_tasks: Sequence[int]) -> None:
        self.grouping.prepare(context, stream, target_tasks)

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return self.grouping.choose_tasks(task_id, values[1:])


def _refuse(declarer: FieldsDeclarer, fault: str, field: str) -> NoReturn:
    id = declarer.component_id
    raise TopologyError(f"component '{id}': {fault}", component=id, field=field)
