"""Entries of one state as a file: Parquet as in a savepoint, CSV, or a JSON object a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tupletree._savepoints.csv_cells import cell_of
from tupletree._savepoints.files import ParquetRows, pyarrow
from tupletree._savepoints.rows import Row
from tupletree._wire.plain_form import shown_form
from tupletree.errors import UsageError

Write = Callable[[Path, Iterable[list[Row]]], int]
"""Writes pages of rows to a new file, and returns the number of rows."""


def writer_of(file: str) -> Write:
    """Return what writes a file, by its ending. Raises UsageError for another, or if Parquet lacks PyArrow."""
    write = _WRITERS.get(Path(file).suffix)
    if write is None:
        raise UsageError(f"the name of the file says its format: .parquet, .csv or .jsonl, not {file!r}")
    if write is _write_parquet:
        pyarrow()
    return write


def _write_parquet(path: Path, pages: Iterable[list[Row]]) -> int:
    with path.open("wb") as file:
        rows = ParquetRows(file)
        for page in pages:
            rows.write(page)
        rows.close()
    return rows.entries


def _write_csv(path: Path, pages: Iterable[list[Row]]) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "key", "value"])
        for page in pages:
            writer.writerows([task, cell_of(shown_form(key)), cell_of(shown_form(value))] for task, key, value in page)
            count += len(page)
    return count


def _write_jsonl(path: Path, pages: Iterable[list[Row]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", errors="replace") as file:
        for page in pages:
            for task, key, value in page:
                shown = {"task": task, "key": shown_form(key), "value": shown_form(value)}
                file.write(json.dumps(shown, ensure_ascii=False) + "\n")
            count += len(page)
    return count


_WRITERS: Final[dict[str, Write]] = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}
