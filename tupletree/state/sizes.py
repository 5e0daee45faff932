"""Sizes of states, and how evenly they lie on the tasks of a component.

A size is the number of committed keys, and the bytes of the encoded keys and values. Entries are counted up to a limit,
so that a measurement costs little whatever the size of a state. Beyond the limit:

    the store knows how many keys or bytes there are   -> about: the other number in proportion to what was counted
    it knows neither                                   -> at least what was counted

Of the entries that were counted, the largest are named.
"""

from __future__ import annotations  # pure

import enum
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tupletree.v1 import topology_pb2 as pb

MAX_LARGEST: Final = 5
MAX_LARGEST_KEY_BYTES: Final = 4_096
"""Entries with longer keys are counted, and not named."""


class SizePrecision(enum.Enum):
    """The relation of a size to the truth, from the best to the worst."""

    EXACT = "exact"
    ABOUT = "about"
    AT_LEAST = "at least"


_ON_WIRE: Final = {
    SizePrecision.EXACT: pb.SIZE_PRECISION_EXACT,
    SizePrecision.ABOUT: pb.SIZE_PRECISION_ABOUT,
    SizePrecision.AT_LEAST: pb.SIZE_PRECISION_AT_LEAST,
}
_OF_WIRE: Final[Mapping[int, SizePrecision]] = {value: precision for precision, value in _ON_WIRE.items()}


def precision_on_wire(precision: SizePrecision) -> pb.SizePrecision:
    """Return a precision as it is sent."""
    return _ON_WIRE[precision]


def precision_of(value: int) -> SizePrecision:
    """Return a precision that was received; an unknown value is the worst."""
    return _OF_WIRE.get(value, SizePrecision.AT_LEAST)


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of the state of one task, or of several together. ``largest``: of one task, its largest first."""

    keys: int
    bytes: int
    precision: SizePrecision = SizePrecision.EXACT
    largest: tuple[LargeEntry, ...] = field(default=(), compare=False)


class LargeEntry(NamedTuple):
    """The bytes of an encoded key and its value, and the key."""

    size: int
    key: bytes


class Counted(NamedTuple):
    """The entries that were counted, and the largest of them. ``is_all``: the state has no others."""

    keys: int
    bytes: int
    is_all: bool
    largest: tuple[LargeEntry, ...] = ()


class Tally:
    """A count of entries that are read one by one."""

    def __init__(self) -> None:
        self.keys = 0
        self.bytes = 0
        self._largest: list[LargeEntry] = []

    def add(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Count entries."""
        sized = [LargeEntry(len(key) + len(value), key) for key, value in entries]
        self.keys += len(sized)
        self.bytes += sum(one.size for one in sized)
        named = (one for one in sized if len(one.key) <= MAX_LARGEST_KEY_BYTES)
        self._largest = heapq.nlargest(MAX_LARGEST, {*self._largest, *named})

    def counted(self, *, is_all: bool) -> Counted:
        """Return what was counted."""
        return Counted(self.keys, self.bytes, is_all, tuple(self._largest))


class Known(NamedTuple):
    """The numbers that a store knows without reading entries; None: unknown."""

    keys: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StateSpread:
    """The sizes of the tasks of a component, taken together.

    ``key_skew`` and ``byte_skew``: the largest task's number over the mean of all tasks, 1.0 if all have the same; None
    if all are empty. ``precision`` is that of ``total``: the worst of the tasks.
    """

    total: StateSize
    key_skew: float | None
    byte_skew: float | None


@dataclass(frozen=True, slots=True)
class TaskStateSize:
    """The size of the state of one task.

    Attributes:
        task: the index of the task in its component.
        size: keys and bytes, and how exact they are; None if they could not be measured.
        committed: the last checkpoint in the store; None before the first one.
        age_secs: the time since the measurement.
        failure: the reason why there is no size.
    """

    task: int
    size: StateSize | None
    committed: int | None
    age_secs: float
    failure: str


@dataclass(frozen=True, slots=True)
class ComponentStates:
    """The states of a component.

    Attributes:
        component: its id.
        provider: the configured provider; "" if no worker has answered.
        tasks: the sizes by task, ascending.
        write_refusal: the reason why ``put``, ``delete`` and ``import_`` refuse this state; "" if they do not.
    """

    component: str
    provider: str
    tasks: tuple[TaskStateSize, ...]
    write_refusal: str

    @property
    def spread(self) -> StateSpread:
        """The sum of the tasks, and how evenly they have it."""
        sizes = [one.size for one in self.tasks if one.size is not None]
        return spread_of(sizes, unknown=len(self.tasks) - len(sizes))

    @property
    def largest(self) -> list[tuple[int, LargeEntry]]:
        """The largest entries of all tasks that were counted, the largest first, with the index of their task."""
        found = ((one, task.task) for task in self.tasks if task.size is not None for one in task.size.largest)
        return [(task, one) for one, task in heapq.nlargest(MAX_LARGEST, found)]


def estimated(counted: Counted, known: Known) -> StateSize:
    """Return the size of a state of which some entries were counted."""
    keys, size, is_all, largest = counted
    if is_all:
        return StateSize(keys, size, largest=largest)
    if known.keys is None and known.bytes is None:
        return StateSize(keys, size, SizePrecision.AT_LEAST, largest)
    all_keys, all_bytes = known
    if all_keys is None:
        all_keys = _in_proportion(keys, all_bytes, size)
    if all_bytes is None:
        all_bytes = _in_proportion(size, all_keys, keys)
    return StateSize(max(keys, all_keys), max(size, all_bytes), SizePrecision.ABOUT, largest)


def spread_of(sizes: Iterable[StateSize], *, unknown: int = 0) -> StateSpread:
    """Return the sizes of a component's tasks together. ``unknown``: the number of tasks that could not be measured."""
    found = list(sizes)
    total = StateSize(sum(one.keys for one in found), sum(one.bytes for one in found), _worst(found, unknown))
    return StateSpread(total, _skew([one.keys for one in found]), _skew([one.bytes for one in found]))


def share_of(part: int, whole: int) -> float | None:
    """Return the share of a task in the keys or bytes of its component; None if there are none."""
    return part / whole if whole else None


def states_of(tasks: Iterable[pb.TaskStateSize]) -> list[ComponentStates]:
    """Return measured tasks by component, in the order in which they come."""
    found: dict[str, list[pb.TaskStateSize]] = {}
    for task in tasks:
        found.setdefault(task.component, []).append(task)
    return [
        ComponentStates(
            component,
            next((one.provider for one in those if one.provider), ""),
            tuple(map(_task_size, those)),
            next((one.write_refusal for one in those if one.write_refusal), ""),
        )
        for component, those in found.items()
    ]


def _task_size(one: pb.TaskStateSize) -> TaskStateSize:
    largest = tuple(LargeEntry(entry.bytes, entry.key) for entry in one.largest)
    size = None if one.failure else StateSize(one.keys, one.bytes, precision_of(one.precision), largest)
    return TaskStateSize(one.index, size, one.committed if one.HasField("committed") else None, one.age_s, one.failure)


def _worst(sizes: Iterable[StateSize], unknown: int) -> SizePrecision:
    if unknown:
        return SizePrecision.AT_LEAST
    order = list(SizePrecision)
    return max((one.precision for one in sizes), key=order.index, default=SizePrecision.EXACT)


def _skew(numbers: list[int]) -> float | None:
    whole = sum(numbers)
    return max(numbers) * len(numbers) / whole if whole else None


def _in_proportion(part: int, whole: int | None, of: int) -> int:
    return part * (whole or 0) // of if of else part
