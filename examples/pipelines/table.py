"""Reads the table of the word count, past everything that is under test."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.spark_word_count import TABLE


def counts(database: Path) -> dict[str, int]:
    """How often each word was counted; empty before the first commit."""
    return dict(_rows(database, f"SELECT word, count FROM {TABLE}"))


def batches(database: Path) -> int:
    """How many batches are in the table: the note that was committed with the last one says so."""
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
