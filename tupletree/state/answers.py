"""Answers to questions about a state: the values of keys, or a page of entries, bounded in number and bytes.

    question -> one TaskAnswer per task of the component -> one answer: at most MAX_BYTES of keys and values

Keys and values stay encoded: whoever asked decodes them. A value that does not fit is left out, with its size.
"""

from __future__ import annotations  # pure

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tupletree._limits import shown
from tupletree._wire.codec import encode_value
from tupletree._wire.plain_form import key_of, plain_form
from tupletree.errors import ProtocolError, TupletreeError, UsageError
from tupletree.state.reader import StateReader
from tupletree.state.value_buffer import check_key
from tupletree.v1 import topology_pb2, worker_pb2

MAX_KEYS: Final = 100
MAX_KEY_BYTES: Final = 65_536
MAX_ENTRIES: Final = 1_000
DEFAULT_ENTRIES: Final = 100
MAX_BYTES: Final = 1_000_000
MAX_BULK_ENTRIES: Final = 100_000
MAX_BULK_BYTES: Final = 8_000_000
MAX_REPLY_BYTES: Final = 16 * MAX_BYTES
"""Of keys and values in the answer of one worker: keys in a state are of any size, and have to be named."""
MAX_POSITION_LENGTH: Final = 100_000
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a state. ``value`` None: the value was left out, because it takes ``size`` bytes."""

    key: bytes
    value: bytes | None
    size: int


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The answer of one task. ``committed``: the checkpoint of the values; of live values, the last checkpoint.

    ``has_more``: a list may go on after the last entry. Without an entry: the next one is for another page.
    """

    index: int
    committed: int | None
    entries: Sequence[Found] = field(default_factory=tuple)
    has_more: bool = False


class Budget:
    """The bytes that an answer may still take. ``whole``: what an answer without other entries may take."""

    def __init__(self, left: int = MAX_BYTES, whole: int | None = None) -> None:
        self.left = left
        self.whole = left if whole is None else whole

    def entry(self, key: bytes, value: bytes) -> Found:
        """Return an entry, without its value if that does not fit any more."""
        size = len(key) + len(value)
        if size > self.left:
            self.left -= len(key)
            return Found(key, None, len(value))
        self.left -= size
        return Found(key, value, len(value))


def encode_key(key: Any) -> bytes:
    """Encode a key. Raises UsageError if it is not a str, bytes, int or a tuple of these, or too long."""
    try:
        check_key("", key)
        encoded = encode_value(key)
    except TupletreeError as error:
        reason = str(error).removeprefix("state '': ")
        raise UsageError(f"a state has no key {shown(key)}: {reason}") from None
    check_keys([encoded])
    return encoded


def decode_key(encoded: bytes) -> Any:
    """Decode a key from outside, without calling the decoder of any user's type.

    Raises UsageError if the bytes are not the encoding of a key.
    """
    try:
        return key_of(plain_form(encoded))
    except ProtocolError as error:
        raise UsageError(f"a key of a state cannot be read: {error}") from None


def check_keys(keys: Sequence[bytes]) -> None:
    """Check the number and the bytes of encoded keys. Raises UsageError."""
    if not 1 <= len(keys) <= MAX_KEYS:
        raise UsageError(f"ask for 1 to {MAX_KEYS} keys at once, not {len(keys):,}")
    size = sum(map(len, keys))
    if size > MAX_KEY_BYTES:
        raise UsageError(f"the keys of a question may take {MAX_KEY_BYTES:,} bytes, not {size:,}")


def check_limit(limit: int, *, is_bulk: bool = False) -> None:
    """Check the number of entries of a page. Raises UsageError."""
    most = MAX_BULK_ENTRIES if is_bulk else MAX_ENTRIES
    if not 1 <= limit <= most:
        raise UsageError(f"a page has 1 to {most:,} entries, not {limit:,}")


def read_keys(index: int, reader: StateReader, keys: Sequence[bytes], budget: Budget) -> TaskAnswer:
    """Return the committed values of keys."""
    committed, values = _at_one_checkpoint(reader, lambda: [reader.get(key) for key in keys])
    found = [budget.entry(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
    return TaskAnswer(index, committed, found)


def read_page(index: int, reader: StateReader, after: bytes, limit: int, budget: Budget) -> TaskAnswer:
    """Return the committed entries that follow ``after``."""
    most = max(1, budget.left)
    committed, entries = _at_one_checkpoint(reader, lambda: reader.scan(after, limit, most))
    found: list[Found] = []
    for key, value in entries:
        size = len(key) + len(value)
        if size > budget.left and (found or size <= budget.whole):
            break  # for the next page
        found.append(budget.entry(key, value))
    is_cut = sum(len(key) + len(value) for key, value in entries) >= most  # the reader may have stopped at the bytes
    has_more = is_cut or len(found) < len(entries) or len(found) >= limit
    return TaskAnswer(index, committed, found, has_more)


def _at_one_checkpoint(reader: StateReader, read: Callable[[], Any]) -> tuple[int | None, Any]:
    """Read between two equal ``committed``; after some attempts, as it is: a commit fell into each."""
    committed = reader.committed
    for _ in range(_TRIES):
        found = read()
        before, committed = committed, reader.committed
        if before == committed:
            break
    return committed, found


def message_of(answer: TaskAnswer) -> topology_pb2.TaskState:
    """Return an answer as it is sent."""
    found = topology_pb2.TaskState(index=answer.index, committed=answer.committed, has_more=answer.has_more)
    for one in answer.entries:
        found.entries.add(key=one.key, value=one.value or b"", size=one.size)
    return found


def fault_of(tasks: Sequence[topology_pb2.TaskState], request: worker_pb2.ReadTaskStatesRequest) -> str:
    """Return what is wrong with the answer of a worker, which may run any code; "" if nothing is."""
    if [task.index for task in tasks] != list(request.indexes):
        return "is not of the tasks that were asked"
    asked, size = set(request.keys), 0
    for task in tasks:
        keys = [entry.key for entry in task.entries]
        size += sum(map(len, keys)) + sum([len(entry.value) for entry in task.entries])
        if asked:
            if not asked.issuperset(keys) or len(set(keys)) < len(keys):
                return "has keys that were not asked for, or one twice"
        elif len(keys) > request.limit or any(key <= before for before, key in pairwise([request.after, *keys])):
            return "has more entries than were asked for, or not in the order of their keys"
    if size > MAX_REPLY_BYTES:
        return f"has {size:,} bytes of keys and values, more than {MAX_REPLY_BYTES:,}"
    return ""


def fitting(tasks: Sequence[topology_pb2.TaskState]) -> list[topology_pb2.TaskState]:
    """Leave out the values that do not fit into one answer together."""
    budget = Budget()
    for task in tasks:
        for entry in task.entries:
            if entry.value and budget.entry(entry.key, entry.value).value is None:
                entry.value = b""
    return list(tasks)


# Positions in a list


def position(index: int, after: bytes) -> str:
    """Return the position after an encoded key of a task; b"" is the start of the task's entries."""
    return f"{index}.{base64.urlsafe_b64encode(after).decode().rstrip('=')}"


def parse_position(position: str) -> tuple[int, bytes]:
    """Return the index of the task and the encoded key of a position; "" is the start. Raises UsageError."""
    if not position:
        return 0, b""
    match = re.fullmatch(r"([0-9]{1,9})\.([A-Za-z0-9_-]*)", position) if len(position) <= MAX_POSITION_LENGTH else None
    if match is not None:
        text = match[2]
        try:
            return int(match[1]), base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except binascii.Error:
            pass
    raise UsageError(f"{shown(position)} is no position in a state: pass what the page before gave as the next one")
