"""Whether a process's memory stays as it is while it is kept busy."""

from __future__ import annotations

from pathlib import Path

SLACK_KB = 8 * 1024
"""An allocator's own, and garbage in cycles that is collected now and then."""


def resident_kb(pid: int) -> int:
    """Physical memory that a process uses."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


class MemoryWatch:
    """Notes taken at equal distances; flat means that the last stretch added no more than a constant to all before."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.notes_kb = [resident_kb(pid)]

    def note(self) -> None:
        self.notes_kb.append(resident_kb(self._pid))

    @property
    def is_flat(self) -> bool:
        return self.notes_kb[-1] - max(self.notes_kb[:-1]) <= SLACK_KB

    def __str__(self) -> str:
        return "resident: " + " ".join(f"{kb / 1024:.0f} MB" for kb in self.notes_kb)
