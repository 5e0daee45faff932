"""The lines of the word count, with a record of all lines that are emitted again, or may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from examples.word_count import Lines, database
from tupletree import Message

BLOCK = 1_000  # lines recorded as reached at a time


class RecordedLines(Lines):
    """Records, before the fact, which lines can have been counted twice.

    ``reached``: no line after the newest one has been emitted. ``replayed``: the lines whose trees failed, and those
    that a predecessor has reached and that follow the position at which this task resumes.
    """

    commit_interval_s = 0.1  # what is acked since then is emitted again after a crash

    def setup(self) -> None:
        super().setup()
        self.step = len(self.context.component_tasks(self.context.component_id))
        self.record = database(
            self.directory / f"record-{self.context.task_index}.db",
            """CREATE TABLE IF NOT EXISTS reached (line INTEGER);
               CREATE TABLE IF NOT EXISTS replayed (line INTEGER PRIMARY KEY);""",
        )
        (self.reached,) = self.record.execute("SELECT coalesce(max(line), -1) FROM reached").fetchone()
        resumed = self.context.task_index if self.position is None else self.position + self.step
        self.failed = set(range(resumed, self.reached + 1, self.step))
        self.write_failed()

    def read(self) -> Iterator[Message]:
        for message in super().read():
            if message.id > self.reached:
                self.reached = message.id + self.step * BLOCK
                with self.record:
                    self.record.execute("INSERT INTO reached VALUES (?)", [self.reached])
            yield message

    def fail_because(self, msg_id: Any, reason: Any) -> None:
        self.failed.add(msg_id.id)
        super().fail_because(msg_id, reason)

    def commit(self, position: int) -> None:
        self.write_failed()  # while they follow the position, a successor would record them
        super().commit(position)

    def write_failed(self) -> None:
        with self.record:
            rows = [(line,) for line in self.failed]
            self.record.executemany("INSERT OR IGNORE INTO replayed VALUES (?)", rows)
        self.failed.clear()
