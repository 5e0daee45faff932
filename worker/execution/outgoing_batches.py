"""Encoding of rows for another worker, in batches of bounded size.

Most batches are small enough when encoded whole. A batch that turns out too large is encoded again in parts. A batch
whose rows look far too large is divided before encoding. A row that is larger than ``topology.tuple.max.bytes``, or
that has a value which cannot be encoded (for example nested too deeply), is refused, and the other rows are sent.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from tupletree._wire.codec import encode_value
from tupletree.errors import TupleTooLargeError, TupletreeError, UnwritableValueError
from tupletree.tuples import Origin

from ..core.batches import BATCH_BYTES, ROW_BYTES, EncodedBatch, Rows, bytes_of, encode

GOAL_BYTES = BATCH_BYTES * 3 // 4
"""The target size of parts. It is below ``BATCH_BYTES`` because rows differ, and a part that is too large is encoded
once more."""
MAX_AT_ONCE = 4 * BATCH_BYTES
"""Rows whose estimated total exceeds this size are divided before encoding."""


class RowsRefused(Exception):
    """Some rows of a batch were not sent: the roots of their trees, and the error to report."""

    def __init__(self, roots: array[int], error: TupletreeError) -> None:
        super().__init__(str(error))
        self.roots = roots
        self.error = error


def send_bounded(origin: Origin, target: int, rows: Rows, max_bytes: int, send: Callable[[EncodedBatch], None]) -> None:
    """Send rows in order, in batches of at most ``BATCH_BYTES`` each, or of a single row of at most ``max_bytes``.

    Raises:
        RowsRefused: some rows were not sent. All other rows were.
        UnregisteredTypeError: a value is of a type that cannot leave its worker.
    """
    refused: list[tuple[Rows, int]] = []
    unwritable: list[tuple[Rows, UnwritableValueError]] = []
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        count, size = len(part), part.size
        if count == 1 and _least_bytes(part) > max_bytes:  # not worth encoding
            refused.append((part, _least_bytes(part)))
            continue
        if count == 1 or size <= MAX_AT_ONCE:
            try:
                batch = encode(origin, target, part)
            except UnwritableValueError as error:
                if count == 1:
                    unwritable.append((part, error))
                else:
                    waiting.extend(part.slice(at, at + 1) for at in reversed(range(count)))
                continue
            size = bytes_of(batch)
            if size <= (max_bytes if count == 1 else BATCH_BYTES):
                send(batch)
                continue
            if count == 1:
                refused.append((part, size))
                continue
        step = max(1, count * GOAL_BYTES // size)
        waiting.extend(part.slice(start, min(count, start + step)) for start in reversed(range(0, count, step)))
    if refused or unwritable:
        parts = [part for part, _ in refused] + [part for part, _ in unwritable]
        roots = array("Q", [root for part in parts for root in part.all_roots()])
        raise RowsRefused(
            roots, _error(origin, refused, max_bytes) if refused else _of_value(unwritable[0][1], len(parts))
        )


def _least_bytes(row: Rows) -> int:
    """Return a lower bound for the encoded size of a row."""
    return sum([len(column[0]) for column in row.columns if type(column[0]) in (str, bytes)])


def _of_value(error: UnwritableValueError, count: int) -> UnwritableValueError:
    others = f" ({count} such tuples in one batch)" if count > 1 else ""
    return UnwritableValueError(f"{error}{others}: the tuple fails")


def _error(origin: Origin, refused: Sequence[tuple[Rows, int]], max_bytes: int) -> TupleTooLargeError:
    row, size = refused[0]
    parts = {
        f"field {field!r}": _bytes_of_value(column[0]) for field, column in zip(origin.fields, row.columns, strict=True)
    }
    parts["the list of its trees"] = ROW_BYTES * len(row.all_roots())
    largest = max(parts, key=lambda name: parts[name])
    others = f" ({len(refused)} such tuples in one batch)" if len(refused) > 1 else ""
    return TupleTooLargeError(
        f"component {origin.component!r} emitted a tuple of {size} bytes on stream {origin.stream!r}, more than "
        f"topology.tuple.max.bytes ({max_bytes}) allows between workers; its largest part is {largest} with "
        f"{parts[largest]} bytes{others}: the tuple fails; emit smaller tuples or raise the limit"
    )


def _bytes_of_value(value: Any) -> int:
    return len(value) if type(value) in (str, bytes) else len(encode_value(value))
