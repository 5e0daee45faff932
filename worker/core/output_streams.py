"""Output buffers: rows emitted but not yet handed over.

A buffer takes the rows of all tasks of an executor for all tasks of one component in one *place*: this worker, or
another one. So the number of batches depends on the number of workers, not on the number of tasks (docs/adr/0044). A
*port* leads from a single task to a single task: groupings choose ports.
"""

from __future__ import annotations  # pure

import dataclasses
import reprlib
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from tupletree.errors import EmitError
from tupletree.outputs import PROGRESS_STREAM, REPORT_STREAM, RESERVED_PREFIXES
from tupletree.tuples import Anchors, Origin

from .batches import BATCH_BYTES, MIXED, Rows, weigh
from .id_columns import IdColumns
from .routing import Many, One

FIRST_ROOM = 64


class OutBuffer:
    """Rows for the tasks of a component in one place: full batches, and the columns of the batch that is being filled.

    ``tasks``: those that have a port to this buffer. ``target`` and ``source``: the task that receives or has emitted
    all rows, or MIXED if there are several. ``ignores_gate``: on a back edge of a cycle (component_graph.py), rows are
    sent even to a congested receiver. Otherwise the components of the cycle could wait for each other forever.
    """

    __slots__ = ("_by_source", "_columns", "_first_source", "_full", "_ids", "_pairs", "_room", "_sealed", "_size",
                 "_source_at", "_sources", "_streams", "_target_at", "_targets", "ignores_gate", "origin", "source",
                 "stream", "target", "tasks")  # fmt: skip

    def __init__(self, stream: OutStream, ignores_gate: bool) -> None:
        self.stream = stream
        self.origin = stream.origin
        self.source = stream.origin.task
        self.tasks: frozenset[int] = frozenset()
        self.target = MIXED
        self.ignores_gate = ignores_gate
        self._full: list[Rows] = []
        self._columns: list[list[Any]] = [[] for _ in range(stream.arity)]
        self._pairs: dict[int, Anchors] = {}
        self._ids = IdColumns()  # root and edge of each row
        self._room = FIRST_ROOM
        self._targets = array("I", bytes(4 * FIRST_ROOM))  # of each row, where they are mixed
        self._sources = array("I", bytes(4 * FIRST_ROOM))
        self._target_at, self._source_at = self._targets, self._sources  # when compiled, raw memory
        self._size = stream.batch_size  # number of rows that fill a batch: smaller while rows are large
        self._sealed = 0  # rows in sealed batches of the current generation
        self._by_source: dict[int, OutStream] = {}  # by the task that emits
        self._first_source = 0
        self._streams: list[OutStream] = []  # the same, from the first of these tasks on

    def __len__(self) -> int:
        return self._ids.count + (sum(map(len, self._full)) if self._full else 0)

    def add_port(self, port: Port) -> None:
        """Take the rows of this port too. Only while the buffer is empty."""
        if port.task not in self.tasks:  # once for each task, not for each pair: a new set is made
            self.tasks |= {port.task}
            self.target = port.task if len(self.tasks) == 1 else MIXED
        if port.source not in self._by_source:
            self.source = port.source if not self._by_source else MIXED
            self._by_source[port.source] = port.stream
            self._first_source = min(self._by_source)
            self._streams = [port.stream] * (max(self._by_source) + 1 - self._first_source)
            for source, stream in self._by_source.items():
                self._streams[source - self._first_source] = stream
        port.buffer = self

    def count_out(self, rows: Rows) -> None:
        """Count rows that are handed over, for the streams that they are of."""
        if rows.sources is None:
            self.stream.transferred += len(rows)
            return
        sources = rows.sources
        for at in range(len(sources)):
            stream = self._streams[sources[at] - self._first_source]
            stream.transferred += 1

    def append(self, source: int, target: int, values: Sequence[Any], root: int, edge: int) -> None:
        """Append a row of one tree, or of no tree (root 0), which ``source`` emitted for ``target``."""
        for position, column in enumerate(self._columns):
            column.append(values[position])
        count = self._ids.count
        if count == self._room:
            self._make_room()
        self._target_at[count] = target
        self._source_at[count] = source
        self._ids.append(root, edge)
        if count + 1 == self._size:
            self._seal()

    def append_multi(self, source: int, target: int, values: Sequence[Any], pairs: Anchors) -> None:
        """Append a row of several trees."""
        self._pairs[self._ids.count] = pairs
        self.append(source, target, values, 0, 0)

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

    def _make_room(self) -> None:
        more = array("I", bytes(4 * self._room))
        self._targets, self._sources = self._targets + more, self._sources + more
        self._target_at, self._source_at = self._targets, self._sources
        self._room = 2 * self._room

    def _seal(self) -> None:
        roots, edges = self._ids.columns()
        count = self._ids.count
        size = weigh(self._columns, count)
        targets = self._targets[:count] if self.target == MIXED else None
        sources = self._sources[:count] if self.source == MIXED else None
        self._sealed += count
        self._full.append(
            Rows(self._columns, roots, edges, self._pairs, self.stream.generation, size, targets, sources)
        )
        self._size = max(1, min(self.stream.batch_size, count * BATCH_BYTES // size))
        self._columns = [[] for _ in range(self.stream.arity)]
        self._ids.clear()
        self._pairs = {}


class Port:
    """The way of a stream's tuples to one receiving task, through the buffer of its place.

    ``receivers``: what ``emit`` returns. ``sent``: the rows in this generation of the stream.
    """

    __slots__ = ("buffer", "ignores_gate", "place", "receivers", "sent", "source", "stream", "task")

    def __init__(self, stream: OutStream, task: int, place: Hashable, ignores_gate: bool) -> None:
        self.stream = stream
        self.source = stream.origin.task
        self.task = task
        self.place = place
        self.ignores_gate = ignores_gate
        self.receivers: tuple[int, ...] = (task,)
        self.sent = 0
        self.buffer: OutBuffer  # set by ``join``

    def append(self, values: Sequence[Any], root: int, edge: int) -> None:
        """Append a row of one tree, or of no tree (root 0)."""
        self.sent += 1
        self.stream.appended += 1
        self.buffer.append(self.source, self.task, values, root, edge)

    def append_multi(self, values: Sequence[Any], pairs: Anchors) -> None:
        """Append a row of several trees."""
        self.sent += 1
        self.stream.appended += 1
        self.buffer.append_multi(self.source, self.task, values, pairs)


def join(streams: Sequence[OutStream]) -> None:
    """Let the same stream of several tasks of a component, or of one, fill one buffer for each place."""
    buffers: dict[Hashable, OutBuffer] = {}
    for stream in streams:
        for port in stream.ports.values():
            if port.place not in buffers:
                buffers[port.place] = OutBuffer(stream, port.ignores_gate)
            buffers[port.place].add_port(port)


class OutStream:
    """One output stream of one task.

    ``choose_one`` is set if every tuple goes to exactly one task, which is the fast path: each transferred row is then
    one emitted tuple. ``emitted`` counts the tuples of streams without ``choose_one``, ``appended`` the rows of all
    ports, and ``transferred`` those that were handed over. ``generation``: the generation
    that batches are marked with (barriers.py); 0 where generations are not used. ``is_report``: its rows tell of rows
    of other streams, which they must not overtake. ``shuffles``: subscriber, chooser and
    its tasks, ascending, of each shuffle, unless the subscriber has a single task.
    """

    __slots__ = ("appended", "arity", "batch_size", "choose_many", "choose_one", "direct_tasks", "emitted",
                 "generation", "is_direct", "is_report", "observe", "origin", "ports", "shuffles",
                 "transferred")  # fmt: skip

    def __init__(self, origin: Origin, is_direct: bool, batch_size: int) -> None:
        self.origin = origin
        self.batch_size = batch_size
        self.arity = len(origin.fields)
        self.is_direct = is_direct
        self.is_report = origin.stream in (REPORT_STREAM, PROGRESS_STREAM)
        self.ports: dict[int, Port] = {}  # by receiving task
        self.direct_tasks: frozenset[int] = frozenset()
        self.shuffles: list[tuple[str, One, tuple[int, ...]]] = []
        self.choose_one: One | None = None
        self.choose_many: Many = _nobody
        self.observe: Callable[[Sequence[Any]], None] | None = None  # receives the values of direct emits
        self.emitted = 0
        self.appended = 0
        self.transferred = 0
        self.generation = 0

    def begin_generation(self, generation: int) -> None:
        """Mark later rows with this generation, and restart the row counts at 0."""
        for buffer in self.buffers():
            buffer.end_generation()
        for port in self.ports.values():
            port.sent = 0
        self.generation = generation

    def buffers(self) -> list[OutBuffer]:
        """Return the buffers that the ports lead to."""
        return list(dict.fromkeys(port.buffer for port in self.ports.values()))

    def port_to(self, task: int, place: Hashable, ignores_gate: bool) -> Port:
        """Return the port to a receiving task, created at the first call. ``join`` gives it a buffer."""
        if task not in self.ports:
            self.ports[task] = Port(self, task, place, ignores_gate)
        return self.ports[task]

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
        """Return values as a list. Raises EmitError for a single value, also for one that is iterable, as a str is.

        A dict has its keys in place of the values, and a set has no order: neither is a row.
        """
        if dataclasses.is_dataclass(values):
            return self._row_of_record(values)
        if isinstance(values, (str, bytes, bytearray, set, frozenset, Mapping)) or not isinstance(values, Iterable):
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

    def direct_port(self, task: int, values: Sequence[Any]) -> Port:
        """Return the port to the target task of a direct emit.

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
        return self.ports[task]


def _pairs_from(roots: Sequence[int], edges: Sequence[int], several: dict[int, Anchors], start: int) -> list[Any]:
    found: list[Any] = []
    for row in range(max(0, start), len(roots)):
        found.extend(several[row] if row in several else [(roots[row], edges[row])])
    return found


def _nobody(values: Sequence[Any]) -> Sequence[Port]:
    return ()


def unknown_stream(component: str, stream: str, known: Sequence[str]) -> EmitError:
    """Return the error for an emit on an undeclared stream."""
    declared = ", ".join(sorted(name for name in known if not name.startswith(RESERVED_PREFIXES))) or "none"
    return EmitError(
        f"component {component!r} emitted on stream {stream!r}, which it does not declare (declared: {declared})"
    )
