"""Results of a batch: the DataFrames that a user's methods return, the rows to emit, and the number of rows read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tupletree.errors import UsageError
from tupletree.spark.processing import Processing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

COUNTED_S = 0.5
"""Maximum wait for the row count. Spark reports it shortly after the job is done, or not at all."""


def made_by(method: str, pipeline: Processing, made: Any) -> DataFrame:
    """Return the result of a pipeline's method. UsageError if the result is not a DataFrame."""
    if not hasattr(made, "toArrow"):
        raise UsageError(f"{type(pipeline).__name__}.{method} returned {made!r}; a DataFrame was expected")
    return made  # type: ignore[no-any-return]


def emitted(pipeline: Processing, frame: DataFrame) -> list[list[Any]]:
    """Return the columns ``outputs`` of a result. UsageError if a column is missing or tuples do not carry its type."""
    name, columns = type(pipeline).__name__, frame.columns
    for output in pipeline.outputs:
        if output not in columns:
            raise UsageError(f"{name}.outputs has {output!r}; the result has the columns {', '.join(columns)}")
    table = frame.select([quoted(output) for output in pipeline.outputs]).toArrow()
    for field in table.schema:
        if kind := _not_carried(field.type):
            raise UsageError(
                f"column {field.name!r} of the outputs is a {kind}, which tuples do not carry: cast it in 'emit'"
            )
    return [_values(field.name, column) for field, column in zip(table.schema, table.columns, strict=True)]


def quoted(name: str) -> str:
    """Quote a column name for Spark, whatever characters it contains."""
    return f"`{name.replace('`', '``')}`"


def _not_carried(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, or a nested type, that tuples do not carry; None if tuples carry all of them."""
    types = pa.types
    if types.is_date(kind) or types.is_time(kind) or types.is_duration(kind) or types.is_decimal(kind):
        return kind
    within = [kind.field(index).type for index in range(kind.num_fields)]
    return next(filter(None, map(_not_carried, within)), None)


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Convert a column. UsageError for values that Python lacks: years outside 1 to 9999, text that is not UTF-8."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError) as error:
        raise UsageError(f"column {name!r} of the outputs has a value that tuples do not carry: {error}") from None


def observed(observation: Observation) -> int | None:
    """Return the observed ``rows``. None if no job has read any; Observation.get could then wait forever."""
    classic = getattr(observation, "_jo", None)
    if classic is None:  # Spark Connect returns the observation with the job
        found = observation.get
    else:
        deadline_s = time.monotonic() + COUNTED_S
        while not classic.future().isCompleted():
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.01)
        found = classic.getAsJava()
    return int(found.get("rows") or 0)  # Spark observes nothing of a source that was optimised away
