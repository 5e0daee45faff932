"""The unit of the data plane: all tuples of one (source task, stream, target task).

In memory a row is ``(values, root, edge)``. A row of no tree has root 0; a row of several trees has root -1 and a tuple
of (root, edge) pairs in place of the edge. Rows are handed to tasks of the same worker as they are, by reference. For
another worker they become a ``worker_pb2.Batch``, whose layout worker.proto gives.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from tupletree._wire.codec import decode_rows, decode_value, encode_rows, encode_value
from tupletree._wire.packed import pack_u64, unpack_u64
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError
from tupletree.tuples import Origin
from tupletree.v1 import worker_pb2

Row = tuple[list[Any], int, Any]
UNANCHORED = 0
MULTI = -1


class Batch:
    """Rows for one task of this worker."""

    __slots__ = ("origin", "rows", "target_task")

    def __init__(self, origin: Origin, target_task: int, rows: Sequence[Row]) -> None:
        self.origin = origin
        self.target_task = target_task
        self.rows = rows


def encode(origin: Origin, target_task: int, rows: Sequence[Row]) -> worker_pb2.Batch:
    """Rows as a message for another worker.

    Raises:
        UnregisteredTypeError: a value cannot leave its worker.
    """
    columns, roots, edges = zip(*rows, strict=True)
    values, first, fields = list(columns), b"", origin.fields
    if _share_attempt(values):
        first, fields = encode_value(values[0][0]), fields[1:]
        values = [row[1:] for row in values]
    message = worker_pb2.Batch(
        source_task=origin.task,
        stream=origin.stream,
        target_task=target_task,
        rows=len(rows),
        values=encode_rows(values, origin.component, fields),
        first=first,
    )
    if min(roots) < 0:
        for row, root in enumerate(roots):
            if root == MULTI:
                pairs = edges[row]
                message.multi.add(
                    row=row, roots=pack_u64([pair[0] for pair in pairs]), edges=pack_u64([pair[1] for pair in pairs])
                )
        edges = tuple(0 if root == MULTI else edge for root, edge in zip(roots, edges, strict=True))
        roots = tuple(max(root, UNANCHORED) for root in roots)
    if any(roots):
        message.roots = pack_u64(roots)
        message.edges = pack_u64(edges)
    return message


def _share_attempt(values: Sequence[list[Any]]) -> bool:
    """Whether all rows begin with the same attempt, as those of one transaction do: worth sending once, not in each."""
    first = values[0][0] if values[0] else None
    return type(first) is TransactionAttempt and all(row[0] is first or row[0] == first for row in values)


def check(message: worker_pb2.Batch) -> None:
    """Check what can be checked of a batch without decoding its values.

    Raises:
        ProtocolError: its arrays do not fit each other.
    """
    expected = message.rows * 8
    if len(message.roots) not in (0, expected) or len(message.edges) != len(message.roots):
        raise ProtocolError(f"a batch of {message.rows} rows carries {len(message.roots)} bytes of roots")
    for multi in message.multi:
        if multi.row >= message.rows or len(multi.roots) != len(multi.edges) or len(multi.roots) % 8:
            raise ProtocolError(f"row {multi.row} of a batch of {message.rows} rows has unequal roots and edges")


def decode(message: worker_pb2.Batch, origin: Origin) -> list[Row]:
    """The rows of a checked message.

    Raises:
        ProtocolError: its values cannot be decoded.
    """
    values = decode_rows(message.values, message.rows, len(origin.fields) - bool(message.first))
    if message.first:
        first = decode_value(message.first)
        for row in values:
            row.insert(0, first)
    if message.roots:
        rows: list[Row] = list(zip(values, unpack_u64(message.roots), unpack_u64(message.edges), strict=True))
    else:
        rows = [(row, UNANCHORED, 0) for row in values]
    for multi in message.multi:
        pairs = tuple(zip(unpack_u64(multi.roots), unpack_u64(multi.edges), strict=True))
        rows[multi.row] = (values[multi.row], MULTI, pairs)
    return rows


def roots_of(message: worker_pb2.Batch) -> array[int]:
    """Every root that a message's rows belong to, the packed way: what to fail if the message was lost."""
    roots = array("Q", [root for root in unpack_u64(message.roots) if root])
    for multi in message.multi:
        roots.extend(unpack_u64(multi.roots))
    return roots
