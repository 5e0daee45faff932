"""Reports of a peer's word count to the benchmark during the run: its start, its word counts and their times.

A program finds its settings in the environment variable WORD_COUNT and leaves marks, small JSON files, in a directory:

    first-<name>    {"at_s": 812.402}                       the time of the first record
    counted-<name>  {"words": 1200000, "at_s": 815.001}     a sink's count so far, and the time of the last word

Times are of the monotonic clock, which all processes of a machine share. Each process leaves its own marks. The first
record of a run is the earliest of all, its last result the latest, and its words are the sum. Standard library only.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "WORD_COUNT"


@dataclass(frozen=True)
class Settings:
    """The task: count ``count`` sentences, the lines of ``file`` over and over, with ``parallelism`` workers."""

    file: str
    count: int
    parallelism: int
    marks: str
    options: Mapping[str, Any]

    def to_json(self) -> str:
        return json.dumps(self.__dict__)

    def sentences(self, part: int = 0, parts: int = 1) -> list[str]:
        """Return the sentences of one of ``parts`` equal parts, in memory. Equal sentences share one string."""
        lines = Path(self.file).read_text().splitlines()
        return [lines[number % len(lines)] for number in range(part, self.count, parts)]


def settings() -> Settings:
    """Return the settings of this run."""
    return Settings(**json.loads(os.environ[VARIABLE]))


def leave(directory: str, name: str, facts: Mapping[str, Any]) -> None:
    """Leave a mark atomically. A mark of the same name is replaced."""
    partial = Path(directory, f".{uuid.uuid4().hex}")
    partial.write_text(json.dumps(facts))
    partial.rename(Path(directory, name))


def first_record(directory: str) -> None:
    """Report that the first record of a reader has arrived. Call this once per reader."""
    leave(directory, f"first-{uuid.uuid4().hex}", {"at_s": time.monotonic()})


def counted(directory: str, sink: str, words: int, at_s: float) -> None:
    """Report the number of words that a sink has counted so far, and the time of the last word."""
    leave(directory, f"counted-{sink}", {"words": words, "at_s": at_s})


def tell(directory: str, told: Callable[[], tuple[int, float]]) -> None:
    """Leave marks of one sink in the background, whenever the result of ``told`` (words, time of last word) changes."""
    threading.Thread(target=_tell, args=(directory, told), daemon=True).start()


def _tell(directory: str, told: Callable[[], tuple[int, float]]) -> None:
    sink = uuid.uuid4().hex
    before = told()
    while Path(directory).exists():
        now = told()
        if now != before:
            counted(directory, sink, *now)
            before = now
        time.sleep(0.05)


@dataclass(frozen=True)
class Told:
    """The combined marks of a directory. ``first_s`` is None before the first record."""

    first_s: float | None
    words: int
    last_s: float


def read(directory: Path) -> Told:
    """Return the earliest first record, the sum of the sinks' words, and the time of the latest result."""
    firsts: list[float] = []
    counts: list[dict[str, Any]] = []
    for path in directory.glob("[!.]*"):
        facts = json.loads(path.read_text())
        if path.name.startswith("first-"):
            firsts.append(facts["at_s"])
        else:
            counts.append(facts)
    words = sum(facts["words"] for facts in counts)
    return Told(min(firsts, default=None), words, max((facts["at_s"] for facts in counts), default=0.0))
