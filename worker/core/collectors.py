"""Collectors: emits that grow tuple trees, and acks (STORM-like rules; docs/protocol.md derives them).

*   A tracked spout emit draws a random root, and one random edge per receiving task. The tree is announced with the
    xor of these edges.
*   A bolt emit draws a random edge per receiving task and anchor. The edge is xored into the anchor's children and
    given to the new tuple for each root of the anchor. The edges of two anchors with the same root are xored.
*   An ack reports, for each root, the tuple's own edge xor its children; fail and reset report the roots. A second ack,
    and any report after a fail, is suppressed: an update for a finished tree would stay at the acker until it expires.

These methods run once per tuple. Code is repeated in them to save calls (bench/word_count).
"""

from __future__ import annotations  # pure

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

from tupletree.collector import BoltCollector, SpoutCollector
from tupletree.errors import EmitError
from tupletree.tuples import Tuple

from .ids import RandomIds
from .output_streams import OutStream, Port, unknown_stream
from .tree_tracker import AckingTask, EmittingSpoutTask, EmittingTask


def find_stream(streams: dict[str, OutStream], task: EmittingTask, stream: str) -> OutStream:
    """Return a declared stream of a task by name. Raises EmitError if there is none."""
    out = streams.get(stream)
    if out is None:
        raise unknown_stream(task.component_id, stream, list(streams))
    return out


def receivers(ports: Sequence[Port]) -> tuple[int, ...]:
    """Return the receiving tasks of these ports."""
    if len(ports) == 1:
        first = ports[0]
        return first.receivers
    return tuple([port.task for port in ports])


def stream_and_values(component_id: str, given: Any) -> tuple[str, Sequence[Any]]:
    """Return the stream and the values of an element of the rows of ``emit_tree``. Raises EmitError."""
    is_row = type(given) is tuple or (isinstance(given, Sequence) and not isinstance(given, str | bytes))
    if is_row and len(given) == 2:
        return given[0], given[1]
    raise EmitError(
        f"component {component_id!r} called emit_tree with {reprlib.repr(given)}: each row is a pair of a stream "
        f"and its values, such as ('default', [value])"
    )


class TaskSpoutCollector(SpoutCollector):
    """The collector of one spout task."""

    def __init__(self, task: EmittingSpoutTask, streams: dict[str, OutStream], ids: RandomIds) -> None:
        self._task = self._owner = task
        self._streams = streams
        self._ids = ids
        self._others = {name: counts for name, counts in task.trees.items() if name != task.first_stream}
        self.emits = 0
        self.emits_until = 0  # set by SpoutTask.poll
        self._staged: list[Sequence[Any]] = []  # rows of the message that is emitted next
        self._targets: list[Any] = []  # of each row: its port, or its stream and several ports
        self._first_stream = ""  # of the first of these rows

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        out = find_stream(self._streams, self._task, stream)
        row = out.checked(values)
        chooser = out.choose_one
        if chooser is None:
            ports = out.choose_many(row)
            out.emitted += 1
        else:
            ports = (chooser.choose(row),)
        self._send(out, row, msg_id, ports)
        return receivers(ports)

    def has_room(self) -> bool:
        return self.emits < self.emits_until and not self._owner.must_yield

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

    def emit_tree(self, rows: Iterable[tuple[str, Sequence[Any]]], msg_id: Any = None) -> int:
        try:
            pairs = []  # all of them, before one is staged: the iterator is user code, and may emit or raise
            for given in rows:
                stream, values = stream_and_values(self._task.component_id, given)
                pairs.append((stream, list(values) if type(values) is list else values))  # it may be used again
            for stream, values in pairs:
                self.stage(stream, values)
        except BaseException:
            self.unstage()
            raise
        return self.emit_staged(msg_id)

    def stage(self, stream: str, values: Sequence[Any]) -> None:
        """Check and route a tuple of the message that ``emit_staged`` emits next. Keeps ``values`` until then."""
        out = find_stream(self._streams, self._task, stream)
        row = out.checked(values)
        chooser = out.choose_one
        if chooser is not None:
            self._targets.append(chooser.choose(row))
        else:
            self._targets.append((out, out.choose_many(row)))
        if not self._staged:
            self._first_stream = stream
        self._staged.append(row)

    def unstage(self) -> None:
        """Forget the staged tuples."""
        self._staged.clear()
        self._targets.clear()

    def emit_staged(self, msg_id: Any) -> int:
        """Emit the staged tuples as one message; return their number."""
        rows = self._staged
        targets = self._targets
        count = len(rows)
        task = self._task
        root = (self._ids.draw() or 1) if msg_id is not None and task.is_tracked else 0
        edge = value = 0
        has_edges = False
        for at in range(count):
            row = rows[at]
            target = targets[at]
            if type(target) is Port:
                port = target
                if root:
                    edge = self._ids.draw()
                    value ^= edge
                    has_edges = True
                port.append(row, root, edge)
                continue
            out, ports = target
            out.emitted += 1
            for port in ports:
                if root:
                    edge = self._ids.draw()
                    value ^= edge
                    has_edges = True
                port.append(row, root, edge)
        self.emits += 1  # also for a message without tuples: the spout is not dry
        if count:
            self.unstage()  # before the spout can hear of the message, and emit
        if msg_id is not None:
            first = self._first_stream if count else ""
            if not has_edges:
                task.settle(msg_id, first, None)
            else:
                task.track(root, value, msg_id, self._others.get(first) if self._others else None)
        return count

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        out = find_stream(self._streams, self._task, stream)
        row = out.row_of(values)
        port = out.direct_port(task, row)
        out.emitted += 1
        self._send(out, row, msg_id, (port,))

    def _send(self, out: OutStream, row: Sequence[Any], msg_id: Any, ports: Sequence[Port]) -> None:
        self.emits += 1
        task = self._task
        if msg_id is None or not task.is_tracked:
            for port in ports:
                port.append(row, 0, 0)
            if msg_id is not None:
                task.acked_untracked(msg_id, out.origin.stream)
            return
        root = self._ids.draw() or 1
        value = 0
        for port in ports:
            edge = self._ids.draw()
            value ^= edge
            port.append(row, root, edge)
        task.track(root, value, msg_id, self._others.get(out.origin.stream) if self._others else None)

    def fail_message(self, msg_id: Any, error: BaseException) -> None:
        """Emit nothing for a message, and fail it (``SpoutTask.settle``)."""
        self.emits += 1  # the spout is not dry
        self._task.settle(msg_id, "", error)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)

    @property
    def pending(self) -> int:
        return len(self._task.pending)


class TaskBoltCollector(BoltCollector):
    """The collector of one bolt task that anchors and acks explicitly.

    ``anchor``: the tuples to which an emit without anchors is anchored, or None.
    """

    def __init__(self, task: AckingTask, streams: dict[str, OutStream], ids: RandomIds) -> None:
        self.anchor: Tuple | Sequence[Tuple] | None = None
        self._task = task
        self._streams = streams
        self._ids = ids

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> tuple[int, ...]:
        out = find_stream(self._streams, self._task, stream)
        row = out.checked(values)
        chooser = out.choose_one
        if chooser is not None:
            port: Port = chooser.choose(row)
            self._append(port, row, anchors)
            return port.receivers
        ports = out.choose_many(row)
        out.emitted += 1
        for port in ports:
            self._append(port, row, anchors)
        return receivers(ports)

    def emit_direct(
        self,
        task: int,
        values: Sequence[Any],
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = "default",
    ) -> None:
        out = find_stream(self._streams, self._task, stream)
        row = out.row_of(values)
        port = out.direct_port(task, row)
        out.emitted += 1
        self._append(port, row, anchors)

    def _append(self, port: Port, row: Sequence[Any], anchors: Tuple | Sequence[Tuple] | None) -> None:
        """Append a row as a new tuple in the trees of its anchors."""
        if anchors is None:
            anchors = self.anchor
        if type(anchors) is Tuple:
            if anchors._root:
                edge = self._ids.draw()
                anchors._children ^= edge
                port.append(row, anchors._root, edge)
            else:
                self._append_to_many(port, row, [anchors])
        else:
            self._append_to_many(port, row, [] if anchors is None else list(anchors))

    def _append_to_many(self, port: Port, row: Sequence[Any], anchors: list[Tuple]) -> None:
        edges: dict[int, int] = {}
        for anchor in anchors:
            pairs = anchor.anchors
            if pairs:
                edge = self._ids.draw()
                anchor._children ^= edge
                for root, _ in pairs:
                    edges[root] = edges.get(root, 0) ^ edge
        if not edges:
            port.append(row, 0, 0)
        elif len(edges) == 1:
            [(root, edge)] = edges.items()
            port.append(row, root, edge)
        else:
            port.append_multi(row, tuple(edges.items()))

    def emit_many(
        self, rows: Iterable[Sequence[Any]], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> int:
        emit = self.emit
        count = 0
        for values in rows:
            emit(values, anchors, stream)
            count += 1
        return count

    def emit_combined(self, rows: Iterable[Sequence[Any]], inputs: Sequence[Tuple], stream: str = "default") -> int:
        out = find_stream(self._streams, self._task, stream)
        held = list(inputs)
        is_tracked = self._task.is_tracked and any([tup._root or tup._pairs for tup in held])
        root = (self._ids.draw() or 1) if is_tracked else 0
        edge = value = 0
        count = edges = 0
        chooser = out.choose_one
        for values in rows:
            row = out.checked(values)
            count += 1
            if chooser is None:
                ports = out.choose_many(row)
                out.emitted += 1
            else:
                ports = (chooser.choose(row),)
            for port in ports:
                if root:
                    edge = self._ids.draw()
                    value ^= edge
                    edges += 1
                port.append(row, root, edge)
        if edges:
            self._task.begin_tree(root, value, held)
        else:
            self.ack_many(held)
        return count

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        task = self._task
        for tup in tuples:
            root = tup._root
            if root:
                value = tup._edge ^ tup._children
                if value:  # 0: acked before, nothing emitted since; the tree can be over
                    task.add_ack(root, value)
                    tup._edge = tup._children
            else:
                self._ack_pairs(tup)
        task.acked_many(tuples)

    def ack(self, tup: Tuple) -> None:
        root = tup._root
        if root:
            value = tup._edge ^ tup._children
            if value:  # as in ack_many
                self._task.add_ack(root, value)
                tup._edge = tup._children
        else:
            self._ack_pairs(tup)
        self._task.acked(tup)

    def _ack_pairs(self, tup: Tuple) -> None:
        if tup._pairs is None:
            return
        children = tup._children
        for tree, edge in tup._pairs:
            if edge != children:
                self._task.add_ack(tree, edge ^ children)
        tup._pairs = tuple([(tree, children) for tree, _ in tup._pairs])

    def fail(self, tup: Tuple, error: BaseException | str | None = None) -> None:
        self._task.fail_trees([root for root, _ in tup.anchors], error)
        self._task.failed(tup)
        tup._root, tup._pairs = 0, None  # left its trees: no further reports for trees that are over

    def reset_timeout(self, tup: Tuple) -> None:
        self._task.updates.resets.update(root for root, _ in tup.anchors)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)
