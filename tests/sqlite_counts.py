"""The counts in states of the SQLite provider, as somebody else reads them while the topology runs."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from tupletree._wire.codec import decode_value


def counts(directory: Path, files: str = "*.db") -> Counter[str]:
    """The committed counts of all tasks. ``files``: a pattern of the files of one component's states."""
    counted: Counter[str] = Counter()
    for path in directory.rglob(files):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone():
                continue  # it was opened a moment ago
            for key, value in connection.execute("SELECT key, value FROM entries"):
                counted[decode_value(key)] += decode_value(value)
    return counted
