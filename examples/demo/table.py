"""Reads the table of the word count, without any of the code under test."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.spark_word_count import TABLE


def counts(database: Path) -> dict[str, int]:
    """Return the stored count of each word; empty before the first commit."""
    return dict(_rows(database, f"SELECT word, count FROM {TABLE}"))


def batches(database: Path) -> int:
    """Return the number of batches in the table, from the note committed with the last batch."""
    return max((txid for (txid,) in _rows(database, "SELECT txid FROM tupletree_commits")), default=0)


def _rows(database: Path, query: str) -> list[Any]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
