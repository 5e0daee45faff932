"""What a batch has come to: the frames that a user's methods return, the rows to emit, and how many were read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
    table = frame.select(*pipeline.outputs).toArrow()
    for column in table.schema:
        kind = column.type
        if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_decimal(kind):
            raise UsageError(
                f"column {column.name!r} of the outputs is a {kind}, which tuples do not carry: cast it in 'emit'"
            )
    return table


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
