"""Batches, the unit of the data plane: tuples of one stream of an executor, for the tasks of a component in one place.

In memory and on the wire, a batch is stored as columns: one per field, one for roots and one for edges. If several
tasks emitted its rows, or several receive them, there is a column of these too (docs/adr/0044). A row of no tree has
root 0. A row of several trees has root 0 too; its (root, edge) pairs are stored separately, by row. Tasks of the same
worker get rows by reference. For another worker, rows are encoded as an ``EncodedBatch``, the content of a
``worker_pb2.Batch`` (worker.proto).
"""

from __future__ import annotations  # pure

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tupletree._wire.codec import decode_columns, decode_value, encode_columns, encode_value
from tupletree._wire.packed import pack_u32, pack_u64, unpack_u32, unpack_u64
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError
from tupletree.tuples import Anchors, Origin
from tupletree.v1 import worker_pb2

Row = tuple[list[Any], int, Any]
"""A single row: values, root and edge. For a row of several trees, the root is MULTI and the edge a tuple of pairs."""
UNANCHORED = 0
MULTI = -1
MAX_ROWS = 1 << 20
"""Row limit of a batch from another worker: otherwise a batch of few bytes could announce any number of rows."""

HEAD_BYTES = 32
"""Approximate size of a batch without its columns."""

BATCH_BYTES = 1024 * 1024
"""Approximate maximum size of a batch for another worker, unless a single row is larger."""

ROW_BYTES = 16
"""Size of the root and edge of a row."""

MIXED = 0
"""The source or target task of a batch whose rows name theirs themselves. No task has this number."""


class Rows:
    """Rows as columns of equal length. ``pairs``: the (root, edge) pairs of the rows that belong to several trees.

    ``generation``: the generation of the stream at the emit, the same for all rows of a batch (barriers.py). ``size``:
    the approximate size in bytes if the rows were weighed, else 0. ``targets``: the task that each row is for, or None
    if all are for one task, which whoever has the rows knows. ``sources``: likewise the task that emitted each row.
    """

    __slots__ = ("columns", "edges", "generation", "pairs", "roots", "size", "sources", "targets")

    def __init__(
        self,
        columns: list[list[Any]],
        roots: array[int],
        edges: array[int],
        pairs: dict[int, Anchors],
        generation: int = 0,
        size: int = 0,
        targets: array[int] | None = None,
        sources: array[int] | None = None,
    ) -> None:
        self.columns = columns
        self.roots = roots
        self.edges = edges
        self.pairs = pairs
        self.generation = generation
        self.size = size
        self.targets = targets
        self.sources = sources

    @staticmethod
    def of(rows: Iterable[Row]) -> Rows:
        """Build columns from single rows."""
        given = list(rows)
        return Rows(
            [list(column) for column in zip(*(values for values, _, _ in given), strict=True)],
            array("Q", [0 if root == MULTI else root for _, root, _ in given]),
            array("Q", [0 if root == MULTI else edge for _, root, edge in given]),
            {at: edge for at, (_, root, edge) in enumerate(given) if root == MULTI},
        )

    def all_roots(self) -> array[int]:
        """Return every root that the rows belong to."""
        roots = array("Q", [root for root in self.roots if root])
        for pairs in self.pairs.values():
            roots.extend(root for root, _ in pairs)
        return roots

    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows from ``start`` to ``stop``, weighed."""
        columns = [column[start:stop] for column in self.columns]
        pairs = {at - start: pairs for at, pairs in self.pairs.items() if start <= at < stop}
        roots, edges = self.roots[start:stop], self.edges[start:stop]
        targets = None if self.targets is None else self.targets[start:stop]
        sources = None if self.sources is None else self.sources[start:stop]
        return Rows(columns, roots, edges, pairs, self.generation, weigh(columns, len(roots)), targets, sources)

    def by_target(self) -> list[tuple[int, Rows]]:
        """Return the rows for each task, in the order of the tasks' first rows. Only for rows with ``targets``."""
        assert self.targets is not None
        return [(target, self._taken(chosen, False)) for target, chosen in _positions(self.targets).items()]

    def by_source(self) -> list[tuple[int, Rows]]:
        """Return the rows that each task has emitted. Only for rows with ``sources``."""
        assert self.sources is not None
        return [(source, self._taken(chosen, True)) for source, chosen in _positions(self.sources).items()]

    def _taken(self, chosen: list[int], is_of_one_source: bool) -> Rows:
        """Return these rows: for one task, or of one task."""
        columns = [[column[at] for at in chosen] for column in self.columns]
        roots, edges = self.roots, self.edges
        pairs = {at: self.pairs[row] for at, row in enumerate(chosen) if row in self.pairs} if self.pairs else {}
        return Rows(
            columns,
            array("Q", [roots[at] for at in chosen]),
            array("Q", [edges[at] for at in chosen]),
            pairs,
            self.generation,
            self.size * len(chosen) // max(1, len(roots)),
            _at(self.targets, chosen) if is_of_one_source else None,
            None if is_of_one_source else _at(self.sources, chosen),
        )

    def __len__(self) -> int:
        return len(self.roots)

    def __iter__(self) -> Iterator[Row]:
        for at in range(len(self)):
            values = [column[at] for column in self.columns]
            if at in self.pairs:
                yield values, MULTI, self.pairs[at]
            else:
                yield values, self.roots[at], self.edges[at]


def _positions(tasks: array[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at, task in enumerate(tasks):
        if task in found:
            found[task].append(at)
        else:
            found[task] = [at]
    return found


def _at(tasks: array[int] | None, chosen: list[int]) -> array[int] | None:
    return None if tasks is None else array("I", [tasks[at] for at in chosen])


def weigh(columns: Sequence[list[Any]], count: int) -> int:
    """Estimate the size of ``count`` rows in bytes from at most eight of them."""
    if count == 0:
        return 0
    step = count // 8 + 1
    sampled = 0
    total = 0
    at = 0
    while at < count:
        for column in columns:
            value = column[at]
            kind = type(value)
            if kind is str or kind is bytes:
                total += len(value)
            else:
                total += weight_of(value, 2)
        sampled += 1
        at += step
    return count * (ROW_BYTES + total // sampled)


def weight_of(value: Any, depth: int) -> int:
    """Estimate the size of a value in bytes. For a collection, all items are assumed to be as large as the first."""
    kind = type(value)
    if kind is int or kind is float or value is None or kind is bool:
        return 8
    if kind is str or kind is bytes:
        return len(value)
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return 8 if not value else len(value) * (8 + (weight_of(next(iter(value)), depth - 1) if depth else 0))
    if kind is dict:
        if not value:
            return 8
        key, item = next(iter(value.items()))
        return len(value) * (16 + (weight_of(key, depth - 1) + weight_of(item, depth - 1) if depth else 0))
    try:
        return sys.getsizeof(value, 64)
    except Exception:  # __sizeof__ can be user code
        return 64


class Batch:
    """Rows for one task of this worker, or for several of one component: then ``target_task`` is MIXED."""

    __slots__ = ("origin", "rows", "target_task")

    def __init__(self, origin: Origin, target_task: int, rows: Rows) -> None:
        self.origin = origin
        self.target_task = target_task
        self.rows = rows


class RowTrees(NamedTuple):
    """The trees of a row that belongs to several: packed roots and edges."""

    row: int
    roots: bytes
    edges: bytes


class EncodedBatch:
    """The content of a ``worker_pb2.Batch``, under the same names, outside of the message.

    Each look at a field of bytes in a message copies it, and so does putting a message into another one.
    """

    __slots__ = ("edges", "first", "generation", "multi", "roots", "rows", "source_task", "sources", "stream",
                 "target_task", "targets", "values")  # fmt: skip

    def __init__(self, source_task: int, stream: str, target_task: int, rows: int, values: bytes) -> None:
        self.source_task = source_task
        self.stream = stream
        self.target_task = target_task
        self.rows = rows
        self.values = values
        self.roots = b""
        self.edges = b""
        self.multi: list[RowTrees] = []
        self.first = b""
        self.generation = 0
        self.sources = b""
        self.targets = b""

    @staticmethod
    def of(message: worker_pb2.Batch) -> EncodedBatch:
        """Take the content out of a message."""
        batch = EncodedBatch(message.source_task, message.stream, message.target_task, message.rows, message.values)
        batch.roots, batch.edges = message.roots, message.edges
        batch.multi = [RowTrees(one.row, one.roots, one.edges) for one in message.multi]
        batch.first, batch.generation = message.first, message.generation
        batch.sources, batch.targets = message.sources, message.targets
        return batch

    @staticmethod
    def from_bytes(data: bytes) -> EncodedBatch:
        """Return the content of a serialized message. Raises DecodeError if it is none."""
        return EncodedBatch.of(worker_pb2.Batch.FromString(data))

    def to_bytes(self) -> bytes:
        """Return the content as a serialized message."""
        message = worker_pb2.Batch()
        self.fill(message)
        return message.SerializeToString()

    def fill(self, message: worker_pb2.Batch) -> None:
        """Put the content into an empty message."""
        message.source_task, message.stream, message.target_task = self.source_task, self.stream, self.target_task
        message.rows, message.values = self.rows, self.values
        message.roots, message.edges = self.roots, self.edges
        for one in self.multi:
            message.multi.add(row=one.row, roots=one.roots, edges=one.edges)
        message.first, message.generation = self.first, self.generation
        message.sources, message.targets = self.sources, self.targets


def encode(origin: Origin, target_task: int, rows: Rows) -> EncodedBatch:
    """Encode rows for another worker.

    Raises:
        UnregisteredTypeError: a value has a type that cannot be sent to another worker.
    """
    columns, first, fields = rows.columns, b"", origin.fields
    if _is_one_attempt(columns):
        first, fields, columns = encode_value(columns[0][0]), fields[1:], columns[1:]
    values = encode_columns(columns, origin.component, fields, origin.stream)
    source = origin.task if rows.sources is None else MIXED
    batch = EncodedBatch(source, origin.stream, target_task, len(rows), values)
    batch.first, batch.generation = first, rows.generation
    if rows.targets is not None:
        batch.targets = pack_u32(rows.targets)
    if rows.sources is not None:
        batch.sources = pack_u32(rows.sources)
    for row, pairs in rows.pairs.items():
        roots, edges = pack_u64([pair[0] for pair in pairs]), pack_u64([pair[1] for pair in pairs])
        batch.multi.append(RowTrees(row, roots, edges))
    roots = pack_u64(rows.roots)
    if roots != bytes(len(roots)):
        batch.roots = roots
        batch.edges = pack_u64(rows.edges)
    return batch


def _is_one_attempt(columns: Sequence[list[Any]]) -> bool:
    """True if all rows begin with the same attempt, as within one transaction. The attempt is then sent once."""
    first = columns[0][0] if columns else None
    return type(first) is TransactionAttempt and columns[0].count(first) == len(columns[0])


def check(batch: EncodedBatch) -> None:
    """Check a batch as far as possible without decoding its values.

    Raises:
        ProtocolError: the lengths of the arrays do not match, or a number is out of range.
    """
    if batch.rows > MAX_ROWS:
        raise ProtocolError(f"a batch announces {batch.rows} rows, more than {MAX_ROWS}")
    if batch.generation >> 63:
        raise ProtocolError(f"a batch has generation {batch.generation}; less than 2**63 was expected")
    for tasks, one in ((batch.targets, batch.target_task), (batch.sources, batch.source_task)):
        if tasks and (one != MIXED or len(tasks) != 4 * batch.rows):
            raise ProtocolError(f"a batch of {batch.rows} rows carries {len(tasks)} bytes of tasks")
    expected = batch.rows * 8
    if len(batch.roots) not in (0, expected) or len(batch.edges) != len(batch.roots):
        raise ProtocolError(f"a batch of {batch.rows} rows carries {len(batch.roots)} bytes of roots")
    for multi in batch.multi:
        if multi.row >= batch.rows or len(multi.roots) != len(multi.edges) or len(multi.roots) % 8:
            raise ProtocolError(f"row {multi.row} of a batch of {batch.rows} rows has unequal roots and edges")


def decode(batch: EncodedBatch, origin: Origin) -> Rows:
    """Decode the rows of a checked batch.

    Raises:
        ProtocolError: the values cannot be decoded.
    """
    columns = decode_columns(batch.values, batch.rows, len(origin.fields) - bool(batch.first))
    if batch.first:
        columns.insert(0, [decode_value(batch.first)] * batch.rows)
    nothing = b"" if batch.roots else bytes(8 * batch.rows)
    pairs: dict[int, Anchors] = {
        multi.row: tuple(zip(unpack_u64(multi.roots), unpack_u64(multi.edges), strict=True)) for multi in batch.multi
    }
    roots, edges = unpack_u64(batch.roots or nothing), unpack_u64(batch.edges or nothing)
    targets = unpack_u32(batch.targets) if batch.targets else None
    sources = unpack_u32(batch.sources) if batch.sources else None
    return Rows(columns, roots, edges, pairs, batch.generation, bytes_of(batch), targets, sources)


def sources_of(batch: EncodedBatch) -> frozenset[int]:
    """Return the tasks that emitted the rows of a batch."""
    return frozenset(unpack_u32(batch.sources)) if batch.sources else frozenset([batch.source_task])


def tasks_of(batch: EncodedBatch) -> frozenset[int]:
    """Return the tasks that the rows of a batch are for."""
    return frozenset(unpack_u32(batch.targets)) if batch.targets else frozenset([batch.target_task])


def bytes_of(batch: EncodedBatch) -> int:
    """Return about the size of the batch as a message."""
    several = 2 * sum(len(multi.roots) for multi in batch.multi) if batch.multi else 0
    return HEAD_BYTES + len(batch.values) + 2 * len(batch.roots) + len(batch.targets) + len(batch.sources) + several


def roots_of(batch: EncodedBatch) -> array[int]:
    """Return every root that the rows of a batch belong to: the trees to fail if the message is lost."""
    roots = array("Q", [root for root in unpack_u64(batch.roots) if root])
    for multi in batch.multi:
        roots.extend(unpack_u64(multi.roots))
    return roots
