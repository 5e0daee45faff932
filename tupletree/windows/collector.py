"""Collector of a windowed bolt. Emits are anchored to the tuples of the window, which are acked at their eviction."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from tupletree.collector import BoltCollector
from tupletree.errors import UsageError
from tupletree.tuples import Tuple

Anchors = Tuple | Sequence[Tuple] | None


class WindowCollector(BoltCollector):
    """The collector of a windowed bolt.

    ``anchors``: by default all tuples of the window. A subset makes an emit cheaper; an empty list means no anchors.
    """

    def __init__(self, collector: BoltCollector) -> None:
        self.plain = collector  # without automatic anchors
        self.window: Sequence[Tuple] = ()

    def emit(self, values: Sequence[Any], anchors: Anchors = None, stream: str = "default") -> tuple[int, ...]:
        return self.plain.emit(values, self.window if anchors is None else anchors, stream)

    def emit_direct(self, task: int, values: Sequence[Any], anchors: Anchors = None, stream: str = "default") -> None:
        self.plain.emit_direct(task, values, self.window if anchors is None else anchors, stream)

    def emit_many(self, rows: Iterable[Sequence[Any]], anchors: Anchors = None, stream: str = "default") -> int:
        return self.plain.emit_many(rows, self.window if anchors is None else anchors, stream)

    def emit_combined(self, rows: Iterable[Sequence[Any]], inputs: Sequence[Tuple], stream: str = "default") -> int:
        self._refuse("emit_combined")

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        self._refuse("ack_many")

    def ack(self, tup: Tuple) -> None:
        self._refuse("ack")

    def fail(self, tup: Tuple, error: BaseException | str | None = None) -> None:
        self._refuse("fail")

    def reset_timeout(self, tup: Tuple) -> None:
        self.plain.reset_timeout(tup)

    def report_error(self, error: BaseException) -> None:
        self.plain.report_error(error)

    @staticmethod
    def _refuse(call: str) -> NoReturn:
        raise UsageError(f"a windowed bolt must not call {call}: its tuples are acked when they are evicted")
