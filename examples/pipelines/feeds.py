"""Files that grow, in a directory that gains files: every few seconds, others begin to grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.transactions.feed import Feed

FILES = 2  # that grow at a time


class Feeds:
    """Writes lines to files in folders of ``directory``, ``rate`` lines a second, beginning with ``turn``."""

    def __init__(self, directory: Path, lines: Sequence[str], rate: float, seed: int) -> None:
        self._directory = directory
        self._lines = lines
        self._rate = rate
        self._seed = seed
        self._all: list[Feed] = []

    @property
    def written(self) -> int:
        """Lines so far."""
        return sum(feed.written for feed in self._all)

    @property
    def pattern(self) -> str:
        """Where the files are."""
        return str(self._directory / "*" / "*.txt")

    def turn(self) -> None:
        """Let the present files grow no more, and others begin."""
        self.stop()
        number = len(self._all)
        feed = Feed(self._directory / f"{number:03}", self._lines, FILES, self._rate, self._seed * 1_000 + number)
        self._all.append(feed)
        feed.start()

    def stop(self) -> None:
        """Write the ends of the last lines, and end. Idempotent."""
        for feed in self._all[-1:]:
            feed.stop()

    def read(self) -> list[str]:
        """The lines of all files."""
        return [line for file in sorted(self._directory.glob("*/*.txt")) for line in file.read_text().splitlines()]
