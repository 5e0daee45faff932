"""Reads the table of the word count, past everything that is under test."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from examples.spark_word_count import TABLE


def counts(database: Path) -> dict[str, int]:
    """How often each word was counted; empty before the first commit."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            return dict(connection.execute(f"SELECT word, count FROM {TABLE}"))
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return {}
            raise
