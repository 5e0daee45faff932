"""Directories of files as sinks: JSON lines, CSV and other lines, and Parquet."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from tupletree._arrow import pa, pq
from tupletree._sinks.file_commits import Content, FileCommits
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.arguments import check, check_flag, check_seconds, check_whole
from tupletree.connectors.csv_format import Csv
from tupletree.connectors.formats import Format, FormatError, Json, checked_format
from tupletree.connectors.transactional_sink import Row, TransactionalSink, check_lengths, faults_of
from tupletree.connectors.typed_rows import Columns, TypedRows
from tupletree.errors import UsageError
from tupletree.tuples import Tuple

COMPRESSIONS: Final = ("none", "snappy", "gzip", "lz4", "zstd")


class DirectorySink(TransactionalSink):
    """A directory to which each transaction adds a file. Common base of FileSink and ParquetSink.

    A file is written under another name, synced to disk, and then renamed, so readers see only whole files. Readers may
    move and delete files at any time.

    **In transactions** a file is named by its owner and transaction, so a transaction has one file, whatever crashes.
    The notes are in the folder ``_tupletree``. Exactly once needs a directory that is the same for each life of a task:
    on a file system that all machines share, with locks, or on one machine. Behind an opaque source, readers leave each
    owner's newest file in place: a newer attempt replaces it.

    **At least once**, with RowSinkBolt, a file has the rows that the bolt has gathered: ``max_rows`` of them, or those
    of ``max_age_s`` seconds. Its tuples are acked when it is in place. No two files have one name, in any life.
    ``topology.message.timeout.secs`` must be well above ``max_age_s``. A spout that may have fewer tuples in process
    than ``max_rows`` waits for ``max_age_s`` each time.

    Not guaranteed: an order of rows of different files; that rows of one transaction of several tasks appear together.

    Errors: while the disk is full, or the directory is missing or not writable, UnavailableError; nothing is lost.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: Sequence[str],
        suffix: str,
        *,
        max_rows: int,
        max_age_s: float,
        timeout_s: float,
    ) -> None:
        self._user = type(self).__name__
        is_path = isinstance(path, str | os.PathLike) and bool(os.fspath(path))
        check(self._user, "path", path, is_path, "the path of a directory")
        check_whole(self._user, "max_rows", max_rows)
        check_seconds(self._user, "max_age_s", max_age_s)
        check_seconds(self._user, "timeout_s", timeout_s)
        self.path = os.path.abspath(os.fspath(path))
        self.fields = list(fields)
        self.gathers = max_rows, max_age_s
        self._files = FileCommits(self.path, suffix, timeout_s)
        self._owner = ""
        self._is_opaque = False

    @property
    def target(self) -> str:
        return f"directory {self.path}"

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        self._owner, self._is_opaque = owner, is_opaque

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        return faults_of(self.content, rows)

    @abstractmethod
    def content(self, rows: Sequence[Row]) -> Content:
        """Return a file with rows. UsageError if a value cannot be stored."""

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        assert self._owner, "open comes first"
        self._files.commit(self._owner, attempt, self._is_opaque, self.content(rows) if rows else None)

    def write(self, rows: Sequence[Row]) -> None:
        if rows:
            self._files.write(self.content(rows))

    def close(self) -> None:
        """Do nothing: no file is open between calls."""


class FileSink(DirectorySink):
    r"""A directory of text files, in which each row is a line. FileSpout reads them.

        FileSink("/data/orders", Json(["order", "amount"]))             # *.jsonl
        FileSink("/data/sales", Csv(["user", "amount"]), header=True)   # *.csv

    ``format``: writes a row as a line, ended by ``\n``: Json, Csv, Text. A row whose line contains a line end cannot be
    stored. ``header``: True to begin each file with a line of the names of the fields; of Csv alone.

    ``path``: the directory, which is made if its parent exists; relative to the directory where this object is made.
    ``max_rows``, ``max_age_s``: the bounds of a file of RowSinkBolt. ``timeout_s``: how long to wait for another life
    of the task that is committing. Raises UsageError for a wrong argument. DirectorySink has the guarantees.
    """

    title: ClassVar[str] = "files"

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: Format,
        *,
        header: bool = False,
        max_rows: int = 10_000,
        max_age_s: float = 5.0,
        timeout_s: float = 10.0,
    ) -> None:
        self.format = checked_format(self, format)
        check_flag("FileSink", "header", header)
        if header and not isinstance(format, Csv):
            raise UsageError("FileSink: header is True; only Csv has lines with the names of the fields")
        suffix = "jsonl" if isinstance(format, Json) else "csv" if isinstance(format, Csv) else "txt"
        super().__init__(path, self.format.fields, suffix, max_rows=max_rows, max_age_s=max_age_s, timeout_s=timeout_s)
        self._header = [self.fields] if header else []

    def content(self, rows: Sequence[Row]) -> Content:
        check_lengths(self._user, self.fields, rows)
        lines = [self._line(row) for row in (*self._header, *rows)]
        return b"".join(lines)

    def _line(self, row: Row) -> bytes:
        tup = cast(Tuple, dict(zip(self.fields, row, strict=True)))  # a format asks for fields alone
        try:
            line = self.format.encode(tup)
        except (FormatError, UnicodeEncodeError) as error:
            raise UsageError(f"{self.target}: {error}") from error
        if b"\n" in line or line.endswith(b"\r"):
            raise UsageError(f"{self.target}: the row {line[:100]!r} contains a line end; one line was expected")
        return line + b"\n"


class ParquetSink(DirectorySink):
    """A directory of Parquet files. ParquetSpout, PyArrow, Spark and DuckDB read them.

        ParquetSink("/data/visits", {"user": "string", "page": "string", "at": "timestamp"})

    ``columns``: the fields and their types, as of ``TypedRows``: a dict with names of Spark's types, a NamedTuple, a
    dataclass or a schema of Arrow. Values have the matching plain types of Python. None is NULL.
    ``compression``: none, snappy, gzip, lz4 or zstd. Other arguments and errors: as of FileSink. DirectorySink has the
    guarantees.
    """

    title: ClassVar[str] = "Parquet"

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Columns,
        *,
        compression: str = "snappy",
        max_rows: int = 10_000,
        max_age_s: float = 5.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._typed = TypedRows("ParquetSink", columns)
        check(
            "ParquetSink", "compression", compression, compression in COMPRESSIONS, f"one of {', '.join(COMPRESSIONS)}"
        )
        super().__init__(
            path, self._typed.fields, "parquet", max_rows=max_rows, max_age_s=max_age_s, timeout_s=timeout_s
        )
        self._compression = compression

    def content(self, rows: Sequence[Row]) -> Content:
        return memoryview(self._parquet(self._typed.table(self.target, rows)))

    def faults(self, rows: Sequence[Row]) -> Mapping[int, UsageError]:
        return faults_of(lambda some: self._typed.table(self.target, some), rows)

    def _parquet(self, table: pa.Table) -> Any:
        stream = pa.BufferOutputStream()
        pq.write_table(table, stream, compression=self._compression)
        return stream.getvalue()
