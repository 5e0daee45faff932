"""Places of states: the namespace of each task's state, and the tasks whose states can have a key."""

from __future__ import annotations  # pure

from collections.abc import Sequence

from tupletree._wire.codec import decode_value
from tupletree._wire.value_hash import hash_values


def namespace_of(state_id: str, component: str, index: int, tasks: int, layout: int) -> str:
    """Return the namespace of the state of a task.

    ``index``: the index of the task in its component, from 0. ``tasks``: the number of tasks of the component.
    ``layout``: the checkpoint at which this number changed last, or a number above it; 0 if it never has.
    """
    folder = f"{component}@{layout}.{tasks}" if layout else component
    return f"{state_id}/{folder}/{index}"


def indexes_of(keys: Sequence[bytes], tasks: int) -> range:
    """Return the indexes of the tasks that can have one of the keys: all, since a bolt chooses the keys of its state.

    ``keys``: encoded. ``tasks``: the number of tasks of the component.
    """
    return range(tasks)


def owner_of(key: bytes, tasks: int, fields: int) -> int | None:
    """Return the index of the only task whose state has a key; None if nothing says so.

    ``key``: encoded. ``fields``: the number of fields of the grouping, if the keys of the state are their values: a
    value, or a tuple of the values of several fields. 0: the keys are of the bolt's choice.
    """
    if not fields:
        return None
    value = decode_value(key)
    values = value if type(value) is tuple else (value,)
    if len(values) != fields or (fields == 1) != (type(value) is not tuple):
        return None
    return hash_values(values, "", [""] * fields) % tasks
