"""Entries of one state from a file, as ``export.py`` writes them: Parquet, CSV, or a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tupletree._csv import csv
from tupletree._savepoints.csv_cells import form_of
from tupletree._savepoints.files import encoded_rows, parquet_file
from tupletree._savepoints.rows import Row
from tupletree._wire.plain_form import key_of
from tupletree._wire.plain_values import value_of
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.writes import put_of

Read = Callable[[Path], Iterator[Row]]


def reader_of(file: str) -> Read:
    """Return what reads a file, by its ending. Raises UsageError for another."""
    read = _READERS.get(Path(file).suffix)
    if read is None:
        raise UsageError(f"entries are imported from a .parquet, .csv or .jsonl file, not from {file!r}")
    return read


def read_entries(file: str) -> Iterator[Row]:
    """Yield the entries of a file, in their order.

    Raises:
        UsageError: the file has another ending, or something in it is no entry.
        UnavailableError: the file cannot be read.
    """
    read = reader_of(file)
    try:
        yield from read(Path(file))
    except OSError as error:
        raise UnavailableError(f"{file} cannot be read: {error.strerror or error}") from error


def _read_jsonl(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="strict") as lines:
        number = 0
        while True:
            number += 1
            where = f"line {number} of {path}"
            try:
                line = lines.readline()
            except UnicodeDecodeError as error:
                raise UsageError(f"{where} is not a text in UTF-8: {error}") from None
            if not line:
                return
            if line.strip():
                yield _row(line, where)


def _row(line: str, where: str) -> Row:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if type(found) is not dict or "key" not in found or "value" not in found:
        raise UsageError(f'{where} is not {{"key": …, "value": …}}: {line.strip()[:100]!r}')
    return _entry(found["key"], found["value"], found.get("task"), where)


def _entry(key: Any, value: Any, task: Any, where: str) -> Row:
    """Return the entry that plain forms stand for. Raises UsageError."""
    try:
        change = put_of(key_of(key), value_of(value), task)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    assert change.value is not None
    return change.task, change.key, change.value


def _read_csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="strict", newline="") as file:
        reader = csv.DictReader(file, strict=True)  # else a quote that is not closed makes one cell of all that follows
        last = 0
        try:
            if not {"key", "value"} <= set(reader.fieldnames or ()):
                raise UsageError(f"the first line of {path} names the columns, and key and value are not among them")
            for row in reader:
                where = f"line {reader.line_num} of {path}"
                if row["key"] is None or row["value"] is None or None in row:
                    raise UsageError(f"{where} has not as many cells as the first line")
                last = reader.line_num
                yield _entry(form_of(row["key"]), form_of(row["value"]), form_of(row.get("task") or "null"), where)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not a text in UTF-8 after line {reader.line_num}: {error}") from None
        except csv.Error as error:
            raise UsageError(f"the row after line {last} of {path} cannot be read: {error}") from None


def _read_parquet(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        yield from encoded_rows(parquet_file(file, str(path)), str(path), "")


_READERS: Final[dict[str, Read]] = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
