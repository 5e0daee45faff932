"""Parquet files, by row group."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tupletree.connectors.file_ranges import sizes_of
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.spark.source import Source, struct_type
from tupletree.spark.sources.files import Extent, FilesSpout, absolute, pieces
from tupletree.spark.sources.parsing import checked_schema
from tupletree.spark.sources.ranges import Sizes, cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAGIC = b"PAR1"
"""The bytes at the beginning of every file and at the end of a finished file."""

MIN_BYTES = 12
"""A shorter file has no footer, even if it ends with the magic bytes."""

FOOTERS_PER_LOOK = 200
"""Maximum number of new files per listing, so that no listing takes long. More files follow with the next listing."""


class ParquetFiles(Source):
    """The rows of Parquet files. Up to ``max_row_groups_per_batch`` row groups of all files together make a batch.

    ``files``: as for TextFiles. Files and matched folders whose names begin with ``_`` are left out too, except folders
    named ``_name=value``. A file must not change. A new file is included as soon as it ends with a footer.

    ``schema``: the columns to read, in Spark's DDL or as a StructType. A column missing in a file is null. None: the
    columns of the first file that the pipeline's task reads after its start; until then the columns are unknown.

    UsageError for invalid arguments.
    """

    def __init__(
        self, files: str | Path, max_row_groups_per_batch: int = 8, *, schema: str | StructType | None = None
    ) -> None:
        if type(max_row_groups_per_batch) is not int or max_row_groups_per_batch < 1:
            raise UsageError(
                f"ParquetFiles: max_row_groups_per_batch is {max_row_groups_per_batch!r}; at least 1 was expected"
            )
        self.schema = StructType() if schema is None else checked_schema("ParquetFiles", schema)
        self.files = absolute("ParquetFiles", files)
        self.max_row_groups_per_batch = max_row_groups_per_batch

    def spout(self) -> FilesSpout:
        return FilesSpout(functools.partial(RowGroupExtent, self.files), self.max_row_groups_per_batch)

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        return cut(splits, tasks, 1)

    def dataframe(self, spark: SparkSession, splits: Sequence[Any]) -> DataFrame:
        if not self.schema and splits:
            self.schema = _footer_schema(pieces(splits[0])[0][0])
        reader = copy.copy(self)
        reader.schema = struct_type(self.schema)  # Spark's Python workers cannot parse DDL
        return Source.dataframe(reader, spark, splits)

    def read(self, split: Any) -> Iterator[Any]:
        columns = to_arrow_schema(self.schema, timezone="UTC") if isinstance(self.schema, StructType) else ()
        names = [column.name for column in columns]
        for path, start, end, _, _ in pieces(split):
            try:
                with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                    if file.num_row_groups < end:
                        raise ReportedFailedException(
                            f"file {path}: row group {end - 1} was expected, but the file has only "
                            f"{file.num_row_groups} row groups: a Parquet file must not change"
                        )
                    for batch in file.iter_batches(row_groups=range(start, end), columns=names or None):
                        yield _fitting(path, batch, columns) if names else batch
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(path, error) from error


class RowGroupExtent(Extent):
    """Parquet files, in row groups. A file without a footer is still being written, and is read later."""

    unit = "row groups"

    def __init__(self, files: str) -> None:
        super().__init__(files)
        self._groups: dict[str, int] = {}
        self._unfinished: dict[str, tuple[int, int]] = {}  # name -> its size and time at the last look

    def sizes(self) -> Sizes:
        names = [name for name, _ in sizes_of(self._files) if not _is_aside(name)]
        footers = 0
        for name in names:
            if name not in self._groups and footers < FOOTERS_PER_LOOK:
                footers += self._find_footer(name)
        return [(name, self._groups[name]) for name in names if name in self._groups]

    def end(self, name: str, start: int, size: int, take: int, may_exceed: bool) -> int | None:
        return min(size, start + take)

    def _find_footer(self, name: str) -> bool:
        """Look for a footer. False if the file was already found without a footer and has not changed since."""
        path = self.path(name)
        try:
            status = os.stat(path)
            mark = status.st_size, status.st_mtime_ns  # size alone is not enough: a writer can preallocate the file
            if self._unfinished.get(name) == mark:
                return False
            if _is_finished(path):
                self._groups[name] = pq.read_metadata(path).num_row_groups
                self._unfinished.pop(name, None)
            else:
                self._unfinished[name] = mark
        except FileNotFoundError:
            pass
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        return True


def _fitting(path: str, batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return a batch with these columns and types. A column missing in the file is null."""
    have = set(batch.schema.names)
    values = []
    for column in columns:
        if column.name not in have:
            values.append(pa.nulls(batch.num_rows, column.type))
            continue
        try:
            values.append(batch.column(column.name).cast(column.type))
        except pa.ArrowException as error:
            raise ValueError(f"file {path}, column {column.name!r} is not {column.type}: {error}") from error
    return pa.RecordBatch.from_arrays(values, schema=columns)


def _is_aside(name: str) -> bool:
    """True if the name marks a file to skip, by the convention of Spark and of pipeline sinks."""
    *folders, file = name.split(os.sep)
    return file.startswith("_") or any(folder.startswith("_") and "=" not in folder for folder in folders)


def _is_finished(path: str) -> bool:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - len(MAGIC)))
        return size >= MIN_BYTES and file.read() == MAGIC


def _footer_schema(path: str) -> StructType:
    try:
        return from_arrow_schema(pq.read_schema(path), prefer_timestamp_ntz=True)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> ReportedFailedException:
    reason = getattr(error, "strerror", None) or error
    return ReportedFailedException(f"file {path} cannot be read: {reason}")
