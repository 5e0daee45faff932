"""Reads the records of the running word count: acked lines, lines that may have been emitted, and counts.

The SQLite files belong to the topology's tasks; a reader disturbs no writer. A task that has not begun yet has no file,
and counts as having done nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.demo.truth import Outcome


class Journals:
    """The files of one word count over ``lines`` lines, with ``tasks`` spout tasks, in ``directory``."""

    def __init__(self, directory: Path, lines: int, tasks: int) -> None:
        self._directory = directory
        self._shares = [range(task, lines, tasks) for task in range(tasks)]

    def acked(self) -> int:
        """Return the number of lines recorded as acked. The record lags: a spout adds up to a thousand at a time."""
        return sum(self._number(task, "SELECT count(*) FROM acked") for task in range(len(self._shares)))

    def reached(self) -> list[int]:
        """Return, per spout task, the number of its lines that have been emitted by now, or may have been."""
        return [self._number(task, "SELECT coalesce(max(lines), 0) FROM reached") for task in range(len(self._shares))]

    def settled(self, reached: Sequence[int]) -> bool:
        """True if every line up to ``reached``, task by task, is acked."""
        for task, (share, count) in enumerate(zip(self._shares, reached, strict=True)):
            if count and self._number(task, "SELECT count(*) FROM acked WHERE line <= ?", share[count - 1]) < count:
                return False
        return True

    def outcome(self) -> Outcome:
        """Return everything recorded."""
        acked = {
            line: bool(replayed)
            for task in range(len(self._shares))
            for line, replayed in self._rows(self._lines_file(task), "SELECT line, replayed FROM acked")
        }
        files = sorted(self._directory.glob("counts-*.db"))
        return Outcome(acked, [dict(self._rows(file, "SELECT word, count FROM counts")) for file in files])

    def _lines_file(self, task: int) -> Path:
        return self._directory / f"lines-{task}.db"

    def _number(self, task: int, query: str, *values: int) -> int:
        rows = self._rows(self._lines_file(task), query, *values)
        return int(rows[0][0]) if rows else 0

    @staticmethod
    def _rows(file: Path, query: str, *values: int) -> list[Any]:
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=10)) as connection:
            try:
                return connection.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # the task is just creating it
                    return []
                raise
