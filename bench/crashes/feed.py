"""Writes the input files while the topology reads them."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

PAUSE_S = 0.05
MAX_TAIL_LENGTH = 20  # bytes held back, so that a reader meets incomplete lines


class Feed:
    """Appends lines to ``files`` files in ``directory``, ``rate`` lines a second, in a thread of its own."""

    def __init__(self, directory: Path, lines: Sequence[str], files: int, rate: float, seed: int) -> None:
        self.written = 0
        """Number of lines written so far."""
        self._rng = random.Random(seed)
        first = self._rng.randrange(len(lines))
        self._lines = itertools.cycle([*lines[first:], *lines[:first]])
        self._rate = rate
        self._buffers = [bytearray() for _ in range(files)]
        directory.mkdir(parents=True)
        self._files: list[BinaryIO] = [(directory / f"{number}.txt").open("ab", buffering=0) for number in range(files)]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    def stop(self) -> None:
        """Write the rest of the last lines, and stop. Idempotent."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join()
        for number, file in enumerate(self._files):
            self._write(number, tail=0)
            file.close()

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._stopped.wait(PAUSE_S):
            due = int((time.monotonic() - began_s) * self._rate)  # fixed, so that a slow machine comes to an end
            while self.written < due:
                self._buffers[self.written % len(self._files)] += f"{next(self._lines)}\n".encode()
                self.written += 1
            for number in range(len(self._files)):
                self._write(number, tail=self._rng.randrange(MAX_TAIL_LENGTH))

    def _write(self, number: int, tail: int) -> None:
        """Write the due bytes of a file, except the last ``tail`` bytes."""
        due = self._buffers[number]
        ready = max(0, len(due) - tail)
        self._files[number].write(due[:ready])
        del due[:ready]
