"""Sources of a pipeline: a transactional spout that defines the batches, and a reader that fetches rows inside Spark.

The rows of the spout are ``[split]``. A *split* is a small value (lists, dicts, strings, numbers) that
locates some rows: a byte range of a file, an offset range of a topic. Splits travel through the cluster and, for
partitioned spouts, into ZooKeeper. Rows do not: Spark's executors call ``read`` with each split.

The type of the spout decides the rule that sinks follow. With a TransactionalSpout or a PartitionedTransactionalSpout a
replayed batch has the same splits, and ``read`` must return the same rows for them. With an
OpaquePartitionedTransactionalSpout a replay can have different splits and rows.

A custom source, three partitions of 1,000 numbers each, with ``NumbersCoordinator`` and ``NumbersEmitter`` as in
docs/guides/transactions.md, where the emitter emits ``[[start, end]]``::

    class Numbers(Source):
        schema = "number BIGINT"
        def spout(self): return NumbersSpout()
        def read(self, split):
            for number in range(*split): yield [number]
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from tupletree.transactional.spouts import OpaquePartitionedTransactionalSpout, TransactionalSpoutBase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_RECORD_BATCH = 10_000
"""Number of single rows gathered into one Arrow record batch."""


class Source:
    """A source of a pipeline. Copied to the pipeline's task and, inside each job, to Spark's Python workers.

    So a source must be small and picklable. Open connections and clients inside ``read``, and import packages there
    that only executors need.

    Attributes:
        schema: the schema of the rows that ``read`` yields, in Spark's DDL (``"key STRING, value BIGINT"``) or as a
            StructType.
    """

    schema: str | StructType

    def spout(self) -> TransactionalSpoutBase:
        """Return the spout whose rows are ``[split]``. Any of the three kinds works."""
        raise NotImplementedError

    def read(self, split: Any) -> Iterator[Any]:
        """Yield the rows of one split.

        A row is a list or tuple of values; a ``pyarrow.RecordBatch`` holds many rows at once. Called inside Spark's
        executors. An exception fails the batch and is shown in ``tupletree errors``.
        """
        raise NotImplementedError

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        """Return the same rows in more splits, so that about ``tasks`` Spark tasks have something to read.

        The division need not be the same at each replay. By default the splits are returned unchanged.
        """
        return splits

    def dataframe(self, spark: SparkSession, splits: Sequence[Any]) -> DataFrame:
        """Return the rows of a batch, with one Spark task per split. Override if Spark itself can read the source."""
        splits = list(splits)
        ranges = spark.range(0, len(splits), 1, max(1, len(splits)))
        schema = struct_type(self.schema)
        return ranges.mapInArrow(_Reader(self, splits, to_arrow_schema(schema, timezone="UTC")), schema)

    def positions_after(self, splits: Sequence[Any]) -> Mapping[str, int]:
        """Return the positions after a batch, of each partition of a log that it reads; none by default."""
        return {}

    @property
    def is_opaque(self) -> bool:
        """True if replays can differ, so that sinks must follow the opaque rule."""
        return isinstance(self.spout(), OpaquePartitionedTransactionalSpout)


class _Reader:
    """Function that Spark calls in its Python workers: takes indices of splits, yields rows."""

    def __init__(self, source: Source, splits: list[Any], schema: pa.Schema) -> None:
        self._source = source
        self._splits = splits
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _freeze_imports()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from record_batches(self._source.read(self._splits[index]), self._schema)


@functools.cache
def _freeze_imports() -> None:
    """Exclude all objects that exist by now from garbage collection. Runs once per Python worker.

    Spark's Python workers collect garbage after every task, which took four fifths of the time of a short task.
    """
    gc.freeze()


@functools.cache
def struct_type(schema: str | StructType) -> StructType:
    """Return a schema as Spark's own type. Needs an active session, classic or Connect. TypeError if not a struct."""
    parsed = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise TypeError(f"the schema {schema!r} names no columns; columns such as 'value STRING' were expected")
    return parsed


def record_batches(rows: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield single rows and record batches as record batches of a schema."""
    for is_batch, group in itertools.groupby(rows, key=lambda row: isinstance(row, pa.RecordBatch)):
        if is_batch:
            yield from (batch.cast(schema) if batch.schema != schema else batch for batch in group)
            continue
        while chunk := list(itertools.islice(group, ROWS_PER_RECORD_BATCH)):
            columns = zip(*chunk, strict=True)
            arrays = [_array(column, field) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_integer(field.type):  # Arrow would drop the decimals
        for value in values:
            if isinstance(value, float) and not value.is_integer():
                raise ValueError(f"column {field.name!r} is {field.type}, but a row has the value {value!r}")
    return pa.array(values, field.type)
