"""What a batch has come to: the frames that a user's methods return, the rows to emit, and how many were read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tupletree.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from tupletree.spark.pipeline import Pipeline

COUNTED_S = 0.5
"""Spark says how many rows were read a moment after the job is done, or not at all."""


def made_by(method: str, pipeline: Pipeline, made: Any) -> DataFrame:
    """What a method of a pipeline returned. UsageError if that is no DataFrame."""
    if not hasattr(made, "toArrow"):
        raise UsageError(f"{type(pipeline).__name__}.{method} returned {made!r}; a DataFrame was expected")
    return made  # type: ignore[no-any-return]


def emitted(pipeline: Pipeline, frame: DataFrame) -> pa.Table:
    """The ``outputs`` of a result. UsageError for a column that is not there, or whose values tuples do not carry."""
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
        if pa.types.is_timestamp(field.type):
            _check_years(field.name, table.column(field.name))
    return table


def quoted(name: str) -> str:
    """A name of a column as Spark reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _not_carried(kind: pa.DataType) -> pa.DataType | None:
    """The type itself, or one within it, that tuples do not carry."""
    types = pa.types
    if types.is_date(kind) or types.is_time(kind) or types.is_duration(kind) or types.is_decimal(kind):
        return kind
    within = [kind.field(index).type for index in range(kind.num_fields)]
    return next(filter(None, map(_not_carried, within)), None)


def _check_years(column: str, times: pa.ChunkedArray) -> None:
    """UsageError for a time that Python does not know, of a year before 1 or after 9999."""
    try:
        pc.min_max(times).as_py()
    except (OverflowError, ValueError) as error:
        raise UsageError(f"column {column!r} of the outputs has a time that tuples do not carry: {error}") from None


def observed(observation: Observation) -> int | None:
    """The ``rows`` that were observed; None if no job has read any, where Observation.get may wait for ever."""
    classic = getattr(observation, "_jo", None)
    if classic is None:  # Spark Connect's is answered with the job
        found = observation.get
    else:
        deadline_s = time.monotonic() + COUNTED_S
        while not classic.future().isCompleted():
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.01)
        found = classic.getAsJava()
    return int(found.get("rows") or 0)  # nothing is said of a source that was optimised away
