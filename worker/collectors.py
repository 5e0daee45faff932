"""The collectors: how emitting grows tuple trees (the rules are STORM-like; docs/protocol.md derives them).

*   A tracked spout emit draws a random root and one random edge for each receiving task; the tree is announced with the
    xor of those edges.
*   A bolt emit draws, for each receiving task and each anchor, a random edge, xors it into that anchor's children, and
    gives it to the new tuple for each root of the anchor. Two anchors of one root meet in one entry, by xor.
*   An ack reports, for each root, the tuple's own edge xor its children; fail and reset report the roots.

These methods run once for each tuple: what looks repeated in them is the price of a call saved (bench/word_count).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tupletree.component import BasicCollector, BoltCollector, SpoutCollector
from tupletree.tuples import Tuple

from .batches import MULTI, UNANCHORED
from .outbox import OutBuffer, OutStream, unknown_stream

if TYPE_CHECKING:
    from .tasks import BasicBoltTask, BoltTask, SpoutTask

RandomBits = Callable[[int], int]


def find_stream(streams: dict[str, OutStream], component: str, stream: str) -> OutStream:
    """The declared stream of that name, or an EmitError."""
    try:
        return streams[stream]
    except KeyError:
        raise unknown_stream(component, stream, list(streams)) from None


class TaskSpoutCollector(SpoutCollector):
    """The collector of one spout task."""

    def __init__(self, task: SpoutTask, streams: dict[str, OutStream], getrandbits: RandomBits) -> None:
        self._task = task
        self._streams = streams
        self._getrandbits = getrandbits
        self.emits = 0

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> list[int]:
        out = find_stream(self._streams, self._task.component_id, stream)
        row = out.checked(values)
        choose = out.choose_one
        if choose is None:
            buffers = out.choose_many(row)
            out.emitted += 1
            self._send(row, msg_id, buffers)
            return [buffer.task for buffer in buffers]
        buffer = choose(row)
        if msg_id is None or not self._task.is_tracked:
            self._send(row, msg_id, (buffer,))
        else:
            self.emits += 1
            edge = self._getrandbits(64)
            root = self._getrandbits(64) or 1
            buffer.append((row, root, edge))
            self._task.track(root, edge, msg_id)
        return [buffer.task]

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Iterable[Any] | None = None) -> int:
        count = 0
        if msg_ids is None:
            for values in rows:
                self.emit(values)
                count += 1
        else:
            for values, msg_id in zip(rows, msg_ids, strict=True):
                self.emit(values, msg_id)
                count += 1
        return count

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        out = find_stream(self._streams, self._task.component_id, stream)
        row = list(values)
        buffer = out.direct_buffer(task, row)
        out.emitted += 1
        self._send(row, msg_id, (buffer,))

    def _send(self, row: list[Any], msg_id: Any, buffers: Sequence[OutBuffer]) -> None:
        self.emits += 1
        task = self._task
        if msg_id is None or not task.is_tracked:
            for buffer in buffers:
                buffer.append((row, UNANCHORED, 0))
            if msg_id is not None:
                task.acked_untracked(msg_id)
            return
        getrandbits = self._getrandbits
        root = getrandbits(64) or 1
        value = 0
        for buffer in buffers:
            edge = getrandbits(64)
            value ^= edge
            buffer.append((row, root, edge))
        task.track(root, value, msg_id)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)

    @property
    def pending(self) -> int:
        return len(self._task.pending)


class TaskBasicCollector(BasicCollector):
    """The collector of one basic bolt task. The task sets ``root``, ``anchors`` and ``children`` for each input."""

    __slots__ = ("_getrandbits", "_streams", "_task", "anchors", "children", "root")

    def __init__(self, task: BasicBoltTask, streams: dict[str, OutStream], getrandbits: RandomBits) -> None:
        self._task = task
        self._streams = streams
        self._getrandbits = getrandbits
        self.root = 0
        self.anchors: Any = ()
        self.children = 0

    def emit(self, values: Sequence[Any], stream: str = "default") -> list[int]:
        try:
            out = self._streams[stream]
        except KeyError:
            raise unknown_stream(self._task.component_id, stream, list(self._streams)) from None
        choose = out.choose_one
        if choose is None:
            return self._emit_to_many(out, out.checked(values))
        if type(values) is not list:
            values = list(values)
        if len(values) != out.arity:
            raise out.wrong_arity(values)
        buffer = choose(values)
        root = self.root
        if root > 0:
            edge = self._getrandbits(64)
            self.children ^= edge
            buffer.append((values, root, edge))
        elif root == UNANCHORED:
            buffer.append((values, UNANCHORED, 0))
        else:
            self._append_multi(buffer, values)
        return [buffer.task]

    def _emit_to_many(self, out: OutStream, row: list[Any]) -> list[int]:
        out.emitted += 1
        buffers = out.choose_many(row)
        for buffer in buffers:
            self._append(buffer, row)
        return [buffer.task for buffer in buffers]

    def _append(self, buffer: OutBuffer, row: list[Any]) -> None:
        if self.root > 0:
            edge = self._getrandbits(64)
            self.children ^= edge
            buffer.append((row, self.root, edge))
        elif self.root == UNANCHORED:
            buffer.append((row, UNANCHORED, 0))
        else:
            self._append_multi(buffer, row)

    def _append_multi(self, buffer: OutBuffer, row: list[Any]) -> None:
        edge = self._getrandbits(64)
        self.children ^= edge
        buffer.append((row, MULTI, tuple((root, edge) for root, _ in self.anchors)))

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        emit = self.emit
        count = 0
        for values in rows:
            emit(values, stream)
            count += 1
        return count

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        out = find_stream(self._streams, self._task.component_id, stream)
        row = list(values)
        buffer = out.direct_buffer(task, row)
        out.emitted += 1
        self._append(buffer, row)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)


class TaskBoltCollector(BoltCollector):
    """The collector of one bolt task that anchors and acks by hand."""

    def __init__(self, task: BoltTask, streams: dict[str, OutStream], getrandbits: RandomBits) -> None:
        self._task = task
        self._streams = streams
        self._getrandbits = getrandbits

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> list[int]:
        out = find_stream(self._streams, self._task.component_id, stream)
        row = out.checked(values)
        choose = out.choose_one
        if choose is not None:
            buffer = choose(row)
            self._append(buffer, row, anchors)
            return [buffer.task]
        buffers = out.choose_many(row)
        out.emitted += 1
        for buffer in buffers:
            self._append(buffer, row, anchors)
        return [buffer.task for buffer in buffers]

    def emit_direct(
        self,
        task: int,
        values: Sequence[Any],
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = "default",
    ) -> None:
        out = find_stream(self._streams, self._task.component_id, stream)
        row = list(values)
        buffer = out.direct_buffer(task, row)
        out.emitted += 1
        self._append(buffer, row, anchors)

    def _append(self, buffer: OutBuffer, row: list[Any], anchors: Tuple | Sequence[Tuple] | None) -> None:
        """Give a row its place in the trees of its anchors, and append it."""
        if anchors is None:
            buffer.append((row, UNANCHORED, 0))
        elif type(anchors) is Tuple and anchors._root >= 0:
            root = anchors._root
            edge = 0
            if root:
                edge = self._getrandbits(64)
                anchors._children ^= edge
            buffer.append((row, root, edge))
        else:
            self._append_to_many(buffer, row, [anchors] if type(anchors) is Tuple else list(anchors))

    def _append_to_many(self, buffer: OutBuffer, row: list[Any], anchors: list[Tuple]) -> None:
        edges: dict[int, int] = {}
        for anchor in anchors:
            pairs = anchor.anchors
            if pairs:
                edge = self._getrandbits(64)
                anchor._children ^= edge
                for root, _ in pairs:
                    edges[root] = edges.get(root, 0) ^ edge
        if not edges:
            buffer.append((row, UNANCHORED, 0))
        elif len(edges) == 1:
            [(root, edge)] = edges.items()
            buffer.append((row, root, edge))
        else:
            buffer.append((row, MULTI, tuple(edges.items())))

    def ack(self, tup: Tuple) -> None:
        root = tup._root
        if root > 0:
            acks = self._task.updates.acks
            acks[root] = acks.get(root, 0) ^ tup._edge ^ tup._children
            tup._edge = tup._children  # so a second ack adds 0
        elif root < 0:
            for tree, edge in tup._edge:
                self._task.updates.add_ack(tree, edge ^ tup._children)
            tup._edge = tuple((tree, tup._children) for tree, _ in tup._edge)
        self._task.acked(tup)

    def fail(self, tup: Tuple) -> None:
        self._task.updates.fails.update(root for root, _ in tup.anchors)
        self._task.failed(tup)

    def reset_timeout(self, tup: Tuple) -> None:
        self._task.updates.resets.update(root for root, _ in tup.anchors)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)
