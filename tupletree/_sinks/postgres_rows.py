"""Rows as CSV, for COPY into a staging table of PostgreSQL."""

from __future__ import annotations

import io

from tupletree._arrow import csv, pa
from tupletree._sinks.postgres_statements import TAGS
from tupletree._sinks.sql_plan import Kind, Plan


def csv_of(plan: Plan, batch: pa.RecordBatch, written_by: tuple[int, int], first_row: int) -> bytes:
    """Return rows as CSV for COPY, with their tags first. UsageError for a key that is NULL."""
    count = batch.num_rows
    partition, task = (pa.repeat(pa.scalar(value, pa.int64()), count) for value in written_by)
    arrays = [partition, task, pa.array(range(first_row, first_row + count), pa.int64())]
    for column in plan.columns:
        values = batch.column(batch.schema.get_field_index(column.name))
        if values.null_count and column in plan.keys:
            raise plan.null_key(column.name)
        # With another time zone, the text would be local time.
        arrays.append(values.cast(pa.timestamp("us", "UTC")) if column.kind == Kind.TIMESTAMP else values)
    text = io.BytesIO()
    tagged = pa.RecordBatch.from_arrays(arrays, [*TAGS, *plan.names])
    csv.write_csv(tagged, text, csv.WriteOptions(include_header=False))
    return text.getvalue()
