"""The collector of basic bolts: each emit is anchored to the input being executed (collectors.py has the rules)."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree.collector import BasicCollector
from tupletree.tuples import Anchors

from .collectors import find_stream, receivers
from .ids import RandomIds
from .output_streams import OutStream, Port
from .tree_tracker import EmittingTask


class TaskBasicCollector(BasicCollector):
    """The collector of one basic bolt task. The task sets ``root``, ``pairs`` and ``children`` for each input."""

    __slots__ = ("_default", "_ids", "_streams", "_task", "children", "pairs", "root")

    def __init__(self, task: EmittingTask, streams: dict[str, OutStream], ids: RandomIds) -> None:
        self._task = task
        self._streams = streams
        self._default = streams.get("default")
        self._ids = ids
        self.root = 0
        self.pairs: Anchors | None = None
        self.children = 0

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        out = self._default
        if out is None or stream != "default":
            out = find_stream(self._streams, self._task, stream)
        row = out.checked(values)
        chooser = out.choose_one
        if chooser is None:
            return self._emit_to_many(out, row)
        port: Port = chooser.choose(row)
        self._append(port, row)
        return port.receivers

    def _emit_to_many(self, out: OutStream, row: Sequence[Any]) -> tuple[int, ...]:
        out.emitted += 1
        ports = out.choose_many(row)
        for port in ports:
            self._append(port, row)
        return receivers(ports)

    def _append(self, port: Port, row: Sequence[Any]) -> None:
        root = self.root
        if root:
            edge = self._ids.draw()
            self.children ^= edge
            port.append(row, root, edge)
        elif self.pairs is None:
            port.append(row, 0, 0)
        else:
            edge = self._ids.draw()
            self.children ^= edge
            port.append_multi(row, tuple([(tree, edge) for tree, _ in self.pairs]))

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        out = self._default
        if out is None or stream != "default":
            out = find_stream(self._streams, self._task, stream)
        chooser = out.choose_one
        count = 0
        for values in rows:
            row = out.checked(values)
            if chooser is None:
                self._emit_to_many(out, row)
            else:
                self._append(chooser.choose(row), row)
            count += 1
        return count

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        out = find_stream(self._streams, self._task, stream)
        row = out.row_of(values)
        port = out.direct_port(task, row)
        out.emitted += 1
        self._append(port, row)

    def report_error(self, error: BaseException) -> None:
        self._task.report_error(error)
