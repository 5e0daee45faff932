"""Places of states: the namespace of each task's state, and the tasks whose states can have a key."""

from __future__ import annotations  # pure

from collections.abc import Sequence


def namespace_of(state_id: str, component: str, index: int, tasks: int, layout: int) -> str:
    """Return the namespace of the state of a task.

    ``index``: the index of the task in its component, from 0. ``tasks``: the number of tasks of the component.
    ``layout``: the checkpoint at which this number changed last; 0 if it never has.
    """
    folder = f"{component}@{layout}.{tasks}" if layout else component
    return f"{state_id}/{folder}/{index}"


def indexes_of(keys: Sequence[bytes], tasks: int) -> range:
    """Return the indexes of the tasks that can have one of the keys: all, since a bolt chooses the keys of its state.

    ``keys``: encoded. ``tasks``: the number of tasks of the component.
    """
    return range(tasks)
