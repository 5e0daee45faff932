"""Parquet files, by row group."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tupletree.connectors.file_ranges import absolute
from tupletree.connectors.parquet import RowGroupLog, shorter, unreadable
from tupletree.errors import UsageError
from tupletree.spark.source import Source, struct_type
from tupletree.spark.sources.files import FilesSpout
from tupletree.spark.sources.parsing import checked_schema
from tupletree.spark.sources.pieces import cut, pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        return FilesSpout(RowGroupLog(self.files), self.max_row_groups_per_batch)

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
                        raise shorter(path, f"row group {end - 1}", f"{file.num_row_groups} row groups")
                    for batch in file.iter_batches(row_groups=range(start, end), columns=names or None):
                        yield _fitting(path, batch, columns) if names else batch
            except (OSError, pa.ArrowException) as error:
                raise unreadable(path, error) from error


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


def _footer_schema(path: str) -> StructType:
    try:
        return from_arrow_schema(pq.read_schema(path), prefer_timestamp_ntz=True)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
