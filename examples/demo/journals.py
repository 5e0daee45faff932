"""Reads the records of the running word count: acked lines, lines emitted again or perhaps emitted, and counts.

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
    """Reads the SQLite files that the tasks of one word count write in ``directory``.

    ``lines``: the number of input lines. ``tasks``: the number of spout tasks.
    """

    def __init__(self, directory: Path, lines: int, tasks: int) -> None:
        self._directory = directory
        self._lines = lines
        self._tasks = range(tasks)

    def acked(self) -> int:
        """Return the number of lines recorded as acked: per task, those before which all lines are acked."""
        return sum(map(len, self._acked()))

    def reached(self) -> list[int]:
        """Return for each spout task the most lines that it can have emitted so far, as a RecordedLines spout records.

        0 for other spouts.
        """
        reached = (self._number(self._file("record", task), "SELECT max(line) FROM reached") for task in self._tasks)
        return [len(self._share(task, min(line, self._lines - 1))) for task, line in enumerate(reached)]

    def settled(self, reached: Sequence[int]) -> bool:
        """True if every line up to ``reached``, task by task, is acked."""
        return all(len(acked) >= count for acked, count in zip(self._acked(), reached, strict=True))

    def outcome(self) -> Outcome:
        """Return everything recorded."""
        records = (self._rows(self._file("record", task), "SELECT line FROM replayed") for task in self._tasks)
        replayed = {line for record in records for (line,) in record}
        acked = {line: line in replayed for share in self._acked() for line in share}
        files = sorted(self._directory.glob("counts-*.db"))
        return Outcome(acked, [dict(self._rows(file, "SELECT word, count FROM counts")) for file in files])

    def _acked(self) -> list[range]:
        """Return the lines of each spout task up to its recorded position."""
        done = (self._number(self._file("lines", task), "SELECT max(line) FROM done") for task in self._tasks)
        return [self._share(task, line) for task, line in enumerate(done)]

    def _share(self, task: int, last: int) -> range:
        return range(task, last + 1, len(self._tasks))

    def _file(self, kind: str, task: int) -> Path:
        return self._directory / f"{kind}-{task}.db"

    def _number(self, file: Path, query: str) -> int:
        """Return the number that a query finds, or -1 if it finds none."""
        rows = self._rows(file, query)
        return -1 if not rows or rows[0][0] is None else int(rows[0][0])

    @staticmethod
    def _rows(file: Path, query: str) -> list[Any]:
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=10)) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # the task is just creating it
                    return []
                raise
