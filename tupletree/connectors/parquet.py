"""Parquet files as a log: each row is a message. A file must not change; new files may appear."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from tupletree._arrow import pa, pq
from tupletree.connectors.arguments import checked_names
from tupletree.connectors.file_ranges import sizes_of
from tupletree.connectors.files import FileLog
from tupletree.connectors.formats import Format, FormatError
from tupletree.connectors.log_source import Bounds
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.tuples import Tuple

MAGIC = b"PAR1"
"""The bytes at the beginning of every file and at the end of a finished file."""

MIN_BYTES = 12
"""A shorter file has no footer, even if it ends with the magic bytes."""

FOOTERS_PER_LOOK = 200
"""Maximum number of new files per listing, so that no listing takes long. More files follow with the next listing."""

ROWS_AT_A_TIME: Final = 1000


class Values(Format):
    """Rows that a log gives as sequences of values. Nothing is encoded. A text says why a row cannot be read."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = list(fields)

    def decode(self, data: Any) -> Sequence[Any]:
        if isinstance(data, str):
            raise FormatError(data)
        return list(data)

    def encode(self, tup: Tuple) -> bytes:
        raise FormatError("Values are of a source, and have no bytes")


class ParquetLog(FileLog):
    """The rows of Parquet files, as sequences of values. Partitions are files; positions are rows.

    ``files``: as for TextFileLog. Files and matched folders whose names begin with ``_`` are left out too, except
    folders named ``_name=value``. A file without a footer is still being written, and is read later.

    ``fields``: the columns to read.

    A file that is damaged, or lacks a column, is reported, and not read. A row with a value that Python cannot have,
    such as a time after the year 9999, is a text that says so.
    """

    unit = "rows"

    def __init__(self, files: str | Path, fields: Sequence[str] = ()) -> None:
        super().__init__(files)
        self.fields = checked_names(type(self).__name__, "fields", fields) if fields != () else []
        self._groups: dict[str, list[int]] = {}  # name -> the first row of each row group, and the number of rows
        self._unfinished: dict[str, tuple[int, int]] = {}  # name -> its size and time at the last look

    def bounds(self, partition: str) -> Bounds:
        if partition not in self._groups:
            self._find_footer(partition)
        if partition not in self._groups:
            raise FailedException(f"file {self.path(partition)} is not there, or has no footer yet")
        return Bounds(0, self._size(self._groups[partition]))

    def partitions(self) -> Sequence[str]:
        """Return the names of all files that have a footer; of one that cannot be read, ``bounds`` says why."""
        names = data_files(self.files)
        faults = self._find_footers(names)
        return [name for name in names if name in self._groups or name in faults]

    def extents(self) -> Sequence[tuple[str, Bounds]]:
        names = data_files(self.files)
        for fault in self._find_footers(names).values():
            raise fault
        return [(name, Bounds(0, self._size(self._groups[name]))) for name in names if name in self._groups]

    def _find_footers(self, names: Sequence[str]) -> dict[str, FailedException]:
        """Look for the footers of new files, of so many as a listing may. Return the errors of those not readable."""
        footers, faults = 0, {}
        for name in names:
            if name not in self._groups and footers < FOOTERS_PER_LOOK:
                try:
                    footers += self._find_footer(name)
                except FailedException as fault:
                    faults[name] = fault
        return faults

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        path = self.path(partition)
        try:
            with pq.ParquetFile(path) as file:
                firsts = _first_rows(file.metadata)
                have = file.schema_arrow.names
                for field in self.fields:
                    if field not in have:
                        raise ReportedFailedException(f"file {path} has no column {field!r}; it has {', '.join(have)}")
                if firsts[-1] < end:
                    raise shorter(path, f"row {end - 1:,}", f"{firsts[-1]:,} rows")
                begin = bisect_right(firsts, start) - 1
                groups = range(begin, bisect_right(firsts, end - 1))
                position = firsts[begin]
                for batch in file.iter_batches(ROWS_AT_A_TIME, row_groups=groups, columns=self.fields):
                    after = position + batch.num_rows
                    if after > start and position < end:
                        skipped = max(0, start - position)
                        yield self._records(
                            partition, batch.slice(skipped, end - position - skipped), position + skipped
                        )
                    position = after
        except (OSError, pa.ArrowException, KeyError) as error:  # KeyError: there is no such time zone
            raise unreadable(path, error) from error

    def _records(self, name: str, batch: pa.RecordBatch, position: int) -> list[LogRecord]:
        columns = [_in_micros(batch.column(field)) for field in self.fields]
        rows: list[Any]
        try:
            rows = [*zip(*(column.to_pylist() for column in columns), strict=True)]
        except (ValueError, OverflowError):  # of some rows
            rows = [self._row(columns, index) for index in range(batch.num_rows)]
        return [LogRecord(row, at, at + 1, (self.name(name), at)) for at, row in enumerate(rows, position)]

    def _row(self, columns: Sequence[Any], index: int) -> Sequence[Any] | str:
        """Return one row; a text if a value of it cannot be read."""
        row = []
        for field, column in zip(self.fields, columns, strict=True):
            try:
                row.append(column[index].as_py())
            except (ValueError, OverflowError) as error:
                return f"the value of {field!r} cannot be read: {error}"
        return row

    def place(self, partition: str, position: int) -> str:
        return f"file {self.path(partition)}: row {position:,}"

    @staticmethod
    def _size(firsts: Sequence[int]) -> int:
        return firsts[-1]

    def _find_footer(self, name: str) -> bool:
        """Look for a footer. False if the file was already found without a footer and has not changed since."""
        path = self.path(name)
        try:
            status = os.stat(path)
            mark = status.st_size, status.st_mtime_ns  # size alone is not enough: a writer can preallocate the file
            if self._unfinished.get(name) == mark:
                return False
            if _is_finished(path):
                self._groups[name] = _first_rows(pq.read_metadata(path))
                self._unfinished.pop(name, None)
            else:
                self._unfinished[name] = mark
        except FileNotFoundError:
            pass
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from error
        return True


class RowGroupLog(ParquetLog):
    """Parquet files in row groups, for readers of their own: ``read`` takes rows."""

    unit = "row groups"

    @staticmethod
    def _size(firsts: Sequence[int]) -> int:
        return len(firsts) - 1


class ParquetSpout(LogSpout):
    """Emits the rows of Parquet files at least once: see ParquetLog and LogSpout. ``fields``: the columns to read."""

    def __init__(
        self,
        files: str | Path,
        fields: Sequence[str],
        *,
        metadata: Sequence[str] = (),
        log_id: str | None = None,
        max_ahead: int = 1_000_000,
    ) -> None:
        source = ParquetLog(files, checked_names(type(self).__name__, "fields", fields))
        super().__init__(source, Values(source.fields), metadata=metadata, log_id=log_id, max_ahead=max_ahead)


def _first_rows(metadata: Any) -> list[int]:
    sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    return list(accumulate(sizes, initial=0))


def _in_micros(column: Any) -> Any:
    """Return a column with its times cut to microseconds. Those of nanoseconds would become objects of pandas."""
    kind = _kind_in_micros(column.type)
    return column if kind == column.type else column.cast(kind, safe=False)


def _kind_in_micros(kind: Any) -> Any:
    types, inner = pa.types, _kind_in_micros
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(inner(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(inner(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type), inner(kind.item_type))
    return pa.time64("us") if kind == pa.time64("ns") else kind


def data_files(files: str) -> list[str]:
    """Return the names of files that are not set aside, sorted. ``files``: as for ParquetLog. Raises OSError."""
    return [name for name, _ in sizes_of(files) if not _is_aside(name)]


def _is_aside(name: str) -> bool:
    """True if the name marks a file to skip, by the convention of Spark and of pipeline sinks."""
    *folders, file = name.split(os.sep)
    return file.startswith("_") or any(folder.startswith("_") and "=" not in folder for folder in folders)


def _is_finished(path: str) -> bool:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - len(MAGIC)))
        return size >= MIN_BYTES and file.read() == MAGIC


def shorter(path: str, expected: str, found: str) -> ReportedFailedException:
    """Return the error for a file that has less than was promised."""
    return ReportedFailedException(
        f"file {path}: {expected} was expected, but the file has only {found}: a Parquet file must not change"
    )


def unreadable(path: str, error: Exception) -> ReportedFailedException:
    """Return the error for a file that cannot be read."""
    reason = getattr(error, "strerror", None) or error
    return ReportedFailedException(f"file {path} cannot be read: {reason}")
