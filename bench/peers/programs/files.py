"""Sentences as lines of files, for engines that read files. Standard library only."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

from bench.peers.programs import marks

WARM_UP = "warm up"
WARM_UP_TIMEOUT_S = 120


def write_files(settings: marks.Settings, directory: str, parts: int) -> None:
    """Write all sentences to ``parts`` files of equal size in a folder. Each file appears atomically."""
    for part in range(parts):
        partial = Path(tempfile.mkdtemp(prefix="partial-"), f"{part}.txt")
        partial.write_text("\n".join(settings.sentences(part, parts)) + "\n")
        partial.rename(Path(directory, partial.name))


class WarmedUp:
    """A folder watched by an engine: first with a warm-up sentence, then, once that was counted, with all others.

    So the engine has started the processes that it starts only for records, such as Python workers, before the clock
    starts. The run's first record counts from the moment when the other files appear. A separate mark subtracts the
    words of the warm-up.
    """

    def __init__(self, settings: marks.Settings, parts: int) -> None:
        self.settings = settings
        self.parts = parts
        self.directory = tempfile.mkdtemp(prefix="watched-")
        Path(self.directory, "warm-up.txt").write_text(f"{WARM_UP}\n" * parts)
        marks.counted(settings.marks, "warm-up", -len(WARM_UP.split()) * parts, 0.0)

    def start(self) -> None:
        """Wait in the background until the sinks have counted the warm-up, then add the other files."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        prepared = tempfile.mkdtemp(prefix="prepared-")
        write_files(self.settings, prepared, self.parts)
        deadline_s = time.monotonic() + WARM_UP_TIMEOUT_S
        while marks.read(Path(self.settings.marks)).words < 0:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the sinks did not count the warm-up sentence within {WARM_UP_TIMEOUT_S} s")
            time.sleep(0.01)
        marks.first_record(self.settings.marks)
        for file in Path(prepared).iterdir():
            file.rename(Path(self.directory, file.name))
