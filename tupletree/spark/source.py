"""What a pipeline reads: a transactional spout that says what a batch is, and a reader that fetches it inside Spark.

The tuples of the spout are ``[attempt, split]``. A *split* is a small value (lists, dicts, strings, numbers) that says
where some rows lie: a byte range of a file, an offset range of a topic. Splits travel through the cluster and, for
partitioned spouts, into ZooKeeper; rows do not: Spark's executors call ``read`` with each split.

Which spout it is decides the rule that sinks follow. With a TransactionalSpout or a PartitionedTransactionalSpout a
replayed batch has the same splits, and ``read`` must find the same rows in them. With an
OpaquePartitionedTransactionalSpout a replay may have others.

A source of one's own, three partitions of 1,000 numbers each, with ``NumbersCoordinator`` and ``NumbersEmitter`` as in
docs/guides/transactions.md, the latter emitting ``[attempt, [start, end]]``::

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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from tupletree.transactional.spouts import OpaquePartitionedTransactionalSpout, TransactionalSpoutBase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_RECORD_BATCH = 10_000
"""How many single rows are gathered into one Arrow record batch."""


class Source:
    """A source of a pipeline. Copied to the pipeline's task and, inside each job, to Spark's Python workers.

    So it must pickle and be small; what ``read`` needs (a connection, a client) it opens itself, and imports what
    executors need to have installed inside the method.

    Attributes:
        schema: of the rows that ``read`` yields, in Spark's DDL (``"key STRING, value BIGINT"``) or as a StructType.
    """

    schema: str | StructType

    def spout(self) -> TransactionalSpoutBase:
        """The spout whose tuples are ``[attempt, split]``: any of the three kinds."""
        raise NotImplementedError

    def read(self, split: Any) -> Iterator[Any]:
        """The rows of one split: each a list or tuple of values, or many at once as a ``pyarrow.RecordBatch``.

        Called inside Spark's executors. What it raises fails the batch and is shown in ``tupletree errors``.
        """
        raise NotImplementedError

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        """The same rows in more splits, so that about ``tasks`` Spark tasks have something to read.

        Need not be the same at each replay. By default as they are.
        """
        return splits

    def dataframe(self, spark: SparkSession, splits: Sequence[Any]) -> DataFrame:
        """The rows of a batch: one Spark task for each split. Override it for a source that Spark itself can read."""
        splits = list(splits)
        ranges = spark.range(0, len(splits), 1, max(1, len(splits)))
        schema = struct_type(self.schema)
        return ranges.mapInArrow(_Reader(self, splits, to_arrow_schema(schema, timezone="UTC")), schema)

    @property
    def is_opaque(self) -> bool:
        """Whether replays may differ, so that sinks must follow the opaque rule."""
        return isinstance(self.spout(), OpaquePartitionedTransactionalSpout)


class _Reader:
    """What Spark calls in its Python workers: indices of splits in, rows out."""

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
    """Once in each Python worker: what is imported by now stays, so no collection need look at it again.

    Spark's Python workers collect garbage after every task; that took four fifths of the time of a short one.
    """
    gc.freeze()


@functools.cache
def struct_type(schema: str | StructType) -> StructType:
    """A schema as Spark's own type; needs an active session, classic or Connect. TypeError if it is not of columns."""
    parsed = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise TypeError(f"the schema {schema!r} names no columns; 'value STRING' would be one")
    return parsed


def record_batches(rows: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows, single ones or record batches, as record batches of a schema."""
    for is_batch, group in itertools.groupby(rows, key=lambda row: isinstance(row, pa.RecordBatch)):
        if is_batch:
            yield from (batch.cast(schema) if batch.schema != schema else batch for batch in group)
            continue
        while chunk := list(itertools.islice(group, ROWS_PER_RECORD_BATCH)):
            columns = zip(*chunk, strict=True)
            arrays = [_array(column, field) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_integer(field.type):  # Arrow would cut off what is behind the point
        for value in values:
            if isinstance(value, float) and not value.is_integer():
                raise ValueError(f"column {field.name!r} is {field.type}, and has the value {value!r}")
    return pa.array(values, field.type)
