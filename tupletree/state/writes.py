"""Changes of a state from outside: their limits, and the requests that carry many of them.

    entries of a file -> requests of at most MAX_CHANGES and REQUEST_BYTES -> one checkpoint has each request

Keys and values stay encoded, as in answers.py. A change without a value deletes its key.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tupletree._limits import shown
from tupletree._wire.codec import encode_value
from tupletree.errors import TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import encode_key
from tupletree.v1 import topology_pb2 as pb

MAX_CHANGES: Final = 50_000
MAX_CHANGE_BYTES: Final = 8_000_000
MAX_CONDITIONAL: Final = 100
"""The most changes of a request in which one has an expected value: a task checks and makes its own in one step."""
REQUEST_BYTES: Final = 2_000_000
"""The bytes at which a request of many changes ends. One with a single large value may take MAX_CHANGE_BYTES."""

DEFAULT_WAIT_S: Final = 60.0
MAX_WAIT_S: Final = 600.0
MAX_TASKS: Final = 1 << 31


class Change(NamedTuple):
    """A change of one key. ``value`` None: delete it. ``task``: the index of the task; None: as the grouping says.

    ``expected``: the value that the key must have now; None: any, or none.
    """

    key: bytes
    value: bytes | None
    task: int | None = None
    expected: bytes | None = None

    @property
    def message(self) -> pb.StateChange:
        """The change as it is sent."""
        return pb.StateChange(key=self.key, value=self.value or b"", index=self.task, expected=self.expected or b"")


class _Anything:
    """The type of ANYTHING."""

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Final[Any] = _Anything()
"""Any value, or none."""


def put_of(key: Any, value: Any, task: int | None = None, expected: Any = ANYTHING) -> Change:
    """Return the change that sets a key. Raises UsageError if the key, a value or the task is invalid."""
    encoded = encode_key(key)
    try:
        data = encode_value(value)
        before = None if expected is ANYTHING else encode_value(expected)
    except TupletreeError as error:
        raise UsageError(f"the value of key {shown(key)} cannot be stored: {error}") from None
    return Change(encoded, data, checked_task(task), before)


def checked_task(task: int | None) -> int | None:
    """Return the index of a task. Raises UsageError if it is none."""
    if task is not None and not (type(task) is int and 0 <= task < MAX_TASKS):
        raise UsageError(f"a task is a whole number from 0, not {shown(task)}")
    return task


def check_changes(changes: Sequence[pb.StateChange]) -> None:
    """Check the number and the bytes of changes. Raises UsageError."""
    if not 1 <= len(changes) <= MAX_CHANGES:
        raise UsageError(f"a request makes 1 to {MAX_CHANGES:,} changes of a state, not {len(changes):,}")
    size = sum(len(one.key) + len(one.value) + len(one.expected) for one in changes)
    if size > MAX_CHANGE_BYTES:
        raise UsageError(f"the keys and values of a request may take {MAX_CHANGE_BYTES:,} bytes, not {size:,}")
    if len(changes) > MAX_CONDITIONAL and any(one.expected for one in changes):
        raise UsageError(
            f"a request with an expected value makes at most {MAX_CONDITIONAL} changes, not {len(changes):,}"
        )


def check_wait(wait_s: float) -> None:
    """Check how long a checkpoint is to be waited for. Raises UsageError."""
    if not (math.isfinite(wait_s) and 0 < wait_s <= MAX_WAIT_S):
        raise UsageError(f"a write waits for its checkpoint for more than 0 and up to {MAX_WAIT_S:g} s, not {wait_s:g}")


def decisive(errors: Sequence[BaseException]) -> BaseException:
    """Return the error to report of several tasks: one that leaves open what is stored, if there is one."""
    return next((error for error in errors if isinstance(error, UnavailableError)), errors[0])


def with_committed(error: BaseException, written: Iterable[pb.StateWritten], whose: str) -> BaseException:
    """Return an error of some tasks, which says how many changes others have committed. ``whose``: the others."""
    committed = sum(task.put + task.deleted for task in written)
    if not committed or not isinstance(error, TupletreeError):
        return error
    return type(error)(f"{error}; of the changes, {committed:,} are committed by {whose}")


def in_requests(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield changes, in their order, as many at a time as one request takes."""
    part: list[Change] = []
    size = 0
    for change in changes:
        own = len(change.key) + len(change.value or b"")
        if part and (len(part) >= MAX_CHANGES or size + own > REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(change)
        size += own
    if part:
        yield part
