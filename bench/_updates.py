"""The sinks of benches in programs of streams: functions inside of the component whose elements they get."""

from __future__ import annotations

from pathlib import Path

from bench._flow import Witness

NAME = "count"


class Updates:
    """Keeps the newest count of each word, of pairs of word and count. Each task has a copy."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.counts: dict[str, int] | None = None

    def __call__(self, update: tuple[str, int]) -> None:
        counts = self.counts
        if counts is None:
            counts = self.counts = {}
            name = claimed(self.directory)
            Witness(self.directory, name, lambda: sum(counts.values()), lambda: counts).start()
        word, count = update
        counts[word] = count


class Tally:
    """Counts and adds up numbers. Each task has a copy."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.count = self.sum = 0

    def __call__(self, number: int) -> None:
        if not self.count:
            Witness(self.directory, claimed(self.directory), lambda: self.count, lambda: self.sum).start()
        self.count += 1
        self.sum += number


def claimed(directory: str) -> str:
    """Return a name for a sink that no other sink of this run has: a function does not know the index of its task."""
    number = 0
    while True:
        try:
            Path(directory, f"{NAME}-{number}.claimed").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return f"{NAME}-{number}"
