"""The tasks that keys of a state belong to, by the fields groupings of the component.

A key belongs to the task that receives the tuples that change its entry: ``values_of_key`` of the bolt says which
values these have in the fields of a grouping, and their hash names the task, as for tuples.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Sequence
from typing import Any

from tupletree._limits import shown
from tupletree._wire.value_hash import hash_values
from tupletree.component import StatefulBolt
from tupletree.errors import UsageError
from tupletree.keyed import KeyedProcess

from ..core.key_hash import KeyHash

Groupings = Callable[[str], Sequence[Sequence[str]]]
"""Returns the fields of each fields grouping of a component."""


class UnplacedKeyError(Exception):
    """A key has no task. The text goes on after the name of the key."""


def hash_of_key(bolt: StatefulBolt, component: str, key: Any, fields: Sequence[str], hashes: KeyHash) -> int | None:
    """Return the hash that decides on the task of a key; None for an entry of the whole task.

    Raises:
        UnplacedKeyError: ``values_of_key`` raises, or returns another number of values.
    """
    try:
        values = bolt.values_of_key(key, fields)
        count = 0 if values is None else len(values)
    except (Exception, SystemExit) as error:
        raise UnplacedKeyError(f"belongs to no task: values_of_key: {type(error).__name__}: {error}") from error
    if values is None:
        return None
    if count != len(fields):
        raise UnplacedKeyError(f"is not a value for each field of the grouping by {', '.join(fields)}")
    hashed = hashes.of(values[0]) if len(values) == 1 else -1
    return hashed if hashed >= 0 else hash_values(values, component, fields)


def plain_key_fields(bolt: StatefulBolt, groupings: Sequence[Sequence[str]]) -> int:
    """Return the number of grouping fields whose values are the keys of a state, so that one task alone has a key.

    0 unless the bolt says so, in the way that ``owner_of`` (tupletree/_checkpoints/places.py) reads keys.
    """
    counts = {len(fields) for fields in groupings}
    count = counts.pop() if len(counts) == 1 else 0
    values_of_key = type(bolt).values_of_key
    is_plain = values_of_key is StatefulBolt.values_of_key
    is_keyed = count == 1 and values_of_key is KeyedProcess.values_of_key
    return count if bolt.is_divisible and (is_plain or is_keyed) else 0


class KeyPlaces:
    """The tasks of the keys of one component. ``groupings``: the fields of each of its fields groupings."""

    def __init__(self, bolt: StatefulBolt, component: str, groupings: Sequence[Sequence[str]], tasks: int) -> None:
        self._bolt = bolt
        self._component = component
        self._groupings = list(dict.fromkeys(map(tuple, groupings)))
        self._tasks = tasks
        self._hashes = KeyHash()

    def index_of(self, key: Any) -> int:
        """Return the index of the task that a key belongs to. Raises UsageError if nothing says so."""
        if self._tasks == 1:
            return 0
        if not self._groupings:
            raise self._refusal(key, "belongs to no fields grouping")
        if self._bolt.is_divisible is False:
            raise self._refusal(key, f"is possibly none of the grouping's: {type(self._bolt).__name__} says so")
        try:
            first, *others = [
                hash_of_key(self._bolt, self._component, key, fields, self._hashes) for fields in self._groupings
            ]
        except UnplacedKeyError as error:
            raise self._refusal(key, str(error)) from error
        if first is None:
            raise self._refusal(key, "belongs to each task, as values_of_key says")
        if any(one is None or one % self._tasks != first % self._tasks for one in others):
            raise self._refusal(key, "belongs to different tasks by the different inputs")
        return first % self._tasks

    def _refusal(self, key: Any, fault: str) -> UsageError:
        return UsageError(
            f"key {shown(key)} of component '{self._component}' {fault}, and the component has {self._tasks} tasks: "
            f"name the task that is to have it"
        )
