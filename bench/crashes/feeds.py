"""Growing files in a directory that gains files: every few seconds, new files begin to grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.crashes.feed import Feed

FILES = 2  # number of files that grow at a time


class Feeds:
    """Writes ``rate`` lines a second to files in folders of ``directory``, from the first ``turn`` on."""

    def __init__(self, directory: Path, lines: Sequence[str], rate: float, seed: int) -> None:
        self._directory = directory
        self._lines = lines
        self._rate = rate
        self._seed = seed
        self._all: list[Feed] = []

    @property
    def written(self) -> int:
        """Number of lines written so far."""
        return sum(feed.written for feed in self._all)

    @property
    def pattern(self) -> str:
        """Pattern of the files' paths."""
        return str(self._directory / "*" / "*.txt")

    def turn(self) -> None:
        """Stop the growth of the current files, and begin new ones."""
        self.stop()
        number = len(self._all)
        feed = Feed(self._directory / f"{number:03}", self._lines, FILES, self._rate, self._seed * 1_000 + number)
        self._all.append(feed)
        feed.start()

    def stop(self) -> None:
        """Write the rest of the last lines, and stop. Idempotent."""
        for feed in self._all[-1:]:
            feed.stop()

    def read(self) -> list[str]:
        """Return the lines of all files."""
        return [line for file in sorted(self._directory.glob("*/*.txt")) for line in file.read_text().splitlines()]
