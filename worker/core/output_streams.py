"""Output buffers of one task, one per (stream, receiving task): rows emitted but not yet handed over."""

from __future__ import annotations  # pure

import dataclasses
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tupletree.errors import EmitError
from tupletree.outputs import PROGRESS_STREAM, REPORT_STREAM, RESERVED_PREFIXES
from tupletree.tuples import Anchors, Origin

from .batches import BATCH_BYTES, Rows, weigh
from .id_columns import IdColumns
from .routing import Many, One


class OutBuffer:
    """Rows for one receiving task: full batches, and the columns of the batch that is being filled.

    ``ignores_gate``: on a back edge of a cycle (component_graph.py), rows are sent even to a congested receiver.
    Otherwise the components of the cycle could wait for each other forever.
    """

    __slots__ = ("_columns", "_full", "_ids", "_pairs", "_sealed", "_size", "ignores_gate", "origin", "receivers",
                 "stream", "task")  # fmt: skip

    def __init__(self, stream: OutStream, task: int, ignores_gate: bool) -> None:
        self.stream = stream
        self.origin = stream.origin
        self.task = task
        self.receivers: tuple[int, ...] = (task,)  # what ``emit`` returns
        self.ignores_gate = ignores_gate
        self._full: list[Rows] = []
        self._columns: list[list[Any]] = [[] for _ in range(stream.arity)]
        self._pairs: dict[int, Anchors] = {}
        self._ids = IdColumns()  # root and edge of each row
        self._size = stream.batch_size  # number of rows that fill a batch: smaller while rows are large
        self._sealed = 0  # rows in sealed batches of the current generation

    def __len__(self) -> int:
        return self._ids.count + (sum(map(len, self._full)) if self._full else 0)

    def append(self, values: Sequence[Any], root: int, edge: int) -> None:
        """Append a row of one tree, or of no tree (root 0)."""
        for position, column in enumerate(self._columns):
            column.append(values[position])
        self._ids.append(root, edge)
        if self._ids.count == self._size:
            self._seal()

    def append_multi(self, values: Sequence[Any], pairs: Anchors) -> None:
        """Append a row of several trees."""
        self._pairs[self._ids.count] = pairs
        self.append(values, 0, 0)

    @property
    def sent(self) -> int:
        """Number of rows appended in the current generation of the stream."""
        return self._sealed + self._ids.count

    def ids_since(self, sent: int) -> list[tuple[int, int]]:
        """Return root and edge of each row appended since ``self.sent`` was ``sent``. No row may be popped since."""
        first = self._sealed  # of the batch that is being filled
        roots, edges = self._ids.columns()
        found = _pairs_from(roots, edges, self._pairs, sent - first)
        for rows in reversed(self._full):
            if first <= sent:
                break
            first -= len(rows)
            found = _pairs_from(rows.roots, rows.edges, rows.pairs, sent - first) + found
        return found

    def end_generation(self) -> None:
        """Close the batch that is being filled. Later rows belong to the next generation of the stream."""
        if self._ids.count:
            self._seal()
        self._sealed = 0

    @property
    def has_full(self) -> bool:
        """True if there is a full batch."""
        return len(self._full) > 0

    def pop_full(self) -> list[Rows]:
        """Remove and return the full batches, oldest first."""
        full, self._full = self._full, []
        return full

    def pop_all(self) -> list[Rows]:
        """Remove and return all rows in batches, oldest first."""
        if self._ids.count:
            self._seal()
        return self.pop_full()

    def _seal(self) -> None:
        roots, edges = self._ids.columns()
        count = self._ids.count
        size = weigh(self._columns, count)
        self._sealed += count
        self._full.append(Rows(self._columns, roots, edges, self._pairs, self.stream.generation, size))
        self._size = max(1, min(self.stream.batch_size, count * BATCH_BYTES // size))
        self._columns = [[] for _ in range(self.stream.arity)]
        self._ids.clear()
        self._pairs = {}


class OutStream:
    """One output stream of one task.

    ``choose_one`` is set if every tuple goes to exactly one task, which is the fast path: each transferred row is then
    one emitted tuple. ``emitted`` counts the tuples of streams without ``choose_one``. ``generation``: the generation
    that batches are marked with (barriers.py); 0 where generations are not used. ``is_report``: its rows tell of rows
    of other streams, which they must not overtake.
    """

    __slots__ = ("arity", "batch_size", "buffers", "choose_many", "choose_one", "direct_tasks", "emitted", "generation",
                 "is_direct", "is_report", "observe", "origin", "transferred")  # fmt: skip

    def __init__(self, origin: Origin, is_direct: bool, batch_size: int) -> None:
        self.origin = origin
        self.batch_size = batch_size
        self.arity = len(origin.fields)
        self.is_direct = is_direct
        self.is_report = origin.stream in (REPORT_STREAM, PROGRESS_STREAM)
        self.buffers: dict[int, OutBuffer] = {}
        self.direct_tasks: frozenset[int] = frozenset()
        self.choose_one: One | None = None
        self.choose_many: Many = _nobody
        self.observe: Callable[[Sequence[Any]], None] | None = None  # receives the values of direct emits
        self.emitted = 0
        self.transferred = 0
        self.generation = 0

    def begin_generation(self, generation: int) -> None:
        """Mark later rows with this generation, and restart the row counts at 0."""
        for buffer in self.buffers.values():
            buffer.end_generation()
        self.generation = generation

    def buffer_for(self, task: int, ignores_gate: bool) -> OutBuffer:
        """Return the buffer of a receiving task, created at the first call."""
        if task not in self.buffers:
            self.buffers[task] = OutBuffer(self, task, ignores_gate)
        return self.buffers[task]

    def checked(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values as a list or tuple of the declared length.

        Raises:
            EmitError: the values are not a row, their number differs from the number of the stream's fields, or the
                stream is direct.
        """
        row = values if type(values) is list or type(values) is tuple else self.row_of(values)
        if len(row) != self.arity:
            raise self.wrong_arity(row)
        if self.is_direct:
            raise EmitError(
                f"component {self.origin.component!r} emitted on the direct stream {self.origin.stream!r}: use "
                f"emit_direct and name the receiving task"
            )
        return row

    def row_of(self, values: Iterable[Any]) -> list[Any]:
        """Return values as a list. Raises EmitError for a single value, also for a str or bytes, which are iterable."""
        if dataclasses.is_dataclass(values):
            return self._row_of_record(values)
        if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
            raise EmitError(
                f"component {self.origin.component!r} emitted {reprlib.repr(values)} on stream {self.origin.stream!r}: "
                f"emit a row with a value for each field, such as [value]"
            )
        return list(values)

    def _row_of_record(self, record: Any) -> list[Any]:
        """Return the values of a dataclass object, by the names of the stream's fields."""
        try:
            return [getattr(record, name) for name in self.origin.fields]
        except AttributeError as error:
            raise EmitError(
                f"component {self.origin.component!r} emitted a {type(record).__name__} on stream "
                f"{self.origin.stream!r}, whose fields are {', '.join(self.origin.fields)}: {error}"
            ) from None

    def wrong_arity(self, row: Sequence[Any]) -> EmitError:
        """Return the error for a row of the wrong length."""
        names = ", ".join(self.origin.fields)
        values = "1 value" if len(row) == 1 else f"{len(row)} values"
        return EmitError(
            f"component {self.origin.component!r} emitted {values} on stream {self.origin.stream!r}, which "
            f"declares {self.arity}: {names}"
        )

    def direct_buffer(self, task: int, values: Sequence[Any]) -> OutBuffer:
        """Return the buffer of the target task of a direct emit.

        Raises:
            EmitError: the stream is not direct, the task does not subscribe to it, or the number of values is wrong.
        """
        component, stream = self.origin.component, self.origin.stream
        if not self.is_direct:
            raise EmitError(f"component {component!r} used emit_direct on stream {stream!r}, which is not direct")
        if len(values) != self.arity:
            raise self.wrong_arity(values)
        if task not in self.direct_tasks:
            raise EmitError(
                f"component {component!r} emitted on stream {stream!r} to task {task}, which does not subscribe to it "
                f"by a direct grouping (subscribed: {sorted(self.direct_tasks)})"
            )
        if self.observe is not None:
            self.observe(values)
        return self.buffers[task]


def _pairs_from(roots: Sequence[int], edges: Sequence[int], several: dict[int, Anchors], start: int) -> list[Any]:
    found: list[Any] = []
    for row in range(max(0, start), len(roots)):
        found.extend(several[row] if row in several else [(roots[row], edges[row])])
    return found


def _nobody(values: Sequence[Any]) -> Sequence[OutBuffer]:
    return ()


def unknown_stream(component: str, stream: str, known: Sequence[str]) -> EmitError:
    """Return the error for an emit on an undeclared stream."""
    declared = ", ".join(sorted(name for name in known if not name.startswith(RESERVED_PREFIXES))) or "none"
    return EmitError(
        f"component {component!r} emitted on stream {stream!r}, which it does not declare (declared: {declared})"
    )
