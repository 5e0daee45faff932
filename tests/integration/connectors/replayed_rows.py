"""Spouts of rows with a word and a count, for topologies that write them to a sink."""

from __future__ import annotations

from typing import Any

from tupletree import Spout


class Words(Spout):
    """Emits rows, and what fails again."""

    outputs = ("word", "count")

    def __init__(self, rows: list[tuple[str, Any]]) -> None:
        self.rows = rows

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.next, self.again = collector, 0, []

    def next_tuple(self) -> None:
        if self.again:
            self.emit(self.again.pop())
        elif self.next < len(self.rows):
            self.emit(self.next)
            self.next += 1

    def emit(self, number: int) -> None:
        self.collector.emit(list(self.rows[number]), number)

    def fail(self, number: int) -> None:
        self.again.append(number)


class PositionedWords(Words):
    """The same, with positions."""

    def checkpoint_state(self) -> int:
        return self.next

    def restore_state(self, state: int) -> None:
        self.next = state
