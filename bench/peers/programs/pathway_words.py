"""Word count on pathway: sentences split by a Python function, counted by its Rust engine.

Started by ``pathway spawn`` in each process. The sentences come from a Python connector, which passes them one by one
from memory, or are lines of files that the engine reads itself. The changes of a commit reach the sink as retractions
and insertions of counts.
"""

# pathway is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call, untyped-decorator"

from __future__ import annotations

import sys
import time
import uuid
from typing import Any

import pathway as pw

from bench.peers.programs import marks


class Sentence(pw.Schema):
    sentence: str


class Sentences(pw.io.python.ConnectorSubject):
    """Passes sentences without a pause, and deletes none."""

    deletions_enabled = False

    def __init__(self, settings: marks.Settings) -> None:
        super().__init__()
        self.settings = settings

    def run(self) -> None:
        sentences = self.settings.sentences()
        marks.first_record(self.settings.marks)
        for sentence in sentences:
            self.next(sentence=sentence)


class Counting(pw.io.python.ConnectorObserver):
    """A sink that adds up the increases of the counts."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.name = uuid.uuid4().hex
        self.words = 0
        self.is_changed = False

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        self.words += row["count"] if is_addition else -row["count"]
        self.is_changed = True

    def on_time_end(self, _: int) -> None:
        if self.is_changed:
            marks.counted(self.directory, self.name, self.words, time.monotonic())
            self.is_changed = False

    def on_end(self) -> None:
        """Do nothing: the last mark already exists."""


@pw.udf(deterministic=True)
def split(sentence: str) -> list[str]:
    return sentence.split()


def read(settings: marks.Settings) -> Any:
    """Return the table of sentences."""
    commit_ms = settings.options["commit_ms"]
    if settings.options["source"] == "python":
        return pw.io.python.read(Sentences(settings), schema=Sentence, autocommit_duration_ms=commit_ms)
    files = settings.options["directory"]
    lines = pw.io.plaintext.read(files, mode="streaming", autocommit_duration_ms=commit_ms)
    return lines.select(sentence=pw.this.data)


def main() -> int:
    """Run until the sentences end; with files, until stopped from outside."""
    settings = marks.settings()
    words = read(settings).select(word=split(pw.this.sentence)).flatten(pw.this.word)
    counts = words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
    pw.io.python.write(counts, Counting(settings.marks))
    if settings.options["source"] == "files":
        marks.first_record(settings.marks)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
