"""Conversion of tuple values to Arrow files, and back."""

from __future__ import annotations  # pure

import functools
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tupletree.errors import UsageError

Select = Callable[[Sequence[Any]], Sequence[Any]]


@functools.cache
def arrow_schema(schema: str) -> pa.Schema:
    """Return the Arrow schema of columns given as Spark's JSON."""
    return to_arrow_schema(StructType.fromJson(json.loads(schema)), timezone="UTC")


def selector(fields: Sequence[str], schema: pa.Schema) -> Select:
    """Return a function that picks the columns from a tuple's values. UsageError if a column is missing."""
    missing = [name for name in schema.names if name not in fields]
    if missing:
        raise UsageError(f"the schema has a column {missing[0]!r}, but the tuples have the fields {', '.join(fields)}")
    positions = [list(fields).index(name) for name in schema.names]
    if len(positions) == 1:
        return lambda values: (values[positions[0]],)
    return operator.itemgetter(*positions)


def table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table. UsageError names the column whose values do not have its type."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [_array(column, field) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_integer(field.type) and any(type(value) is float for value in values):  # Arrow would truncate them
        raise UsageError(f"column {field.name!r} is {field.type}, but one of its values is a float")
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"column {field.name!r} is {field.type}: {error}") from None


def inferred(name: str, values: Sequence[Any]) -> pa.Array:
    """Return values as a column of a type inferred from them. UsageError if no type fits."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"the values of column {name!r} have no common type: {error}") from None


def write_batches(file: BinaryIO, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write an Arrow file; return the number of rows."""
    rows = 0
    with pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def read_batches(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Arrow file, with the columns and types of ``schema``. A column missing in the file is null.

    Raises:
        UsageError: a column cannot be converted to its type.
        OSError: the file cannot be read.
    """
    with pa.OSFile(path) as source, pa.ipc.open_file(source) as reader:
        for index in range(reader.num_record_batches):
            yield conformed(reader.get_batch(index), schema)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the same rows with the columns of ``schema``."""
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        try:
            array = pa.nulls(len(batch), field.type) if position < 0 else batch.column(position).cast(field.type)
        except pa.ArrowException as error:
            raise UsageError(f"column {field.name!r} should be {field.type}: {error}") from None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
