"""Spark inside a transactional topology: a batch bolt that receives a batch as a DataFrame.

class Busy(SparkBatchBolt):
    outputs = ["host", "requests"]
    def process(self, batch): return batch.groupBy("host").agg(count("*").alias("requests"))

builder.set_bolt("busy", Busy()).shuffle_grouping("parse")
"""

from __future__ import annotations

import atexit
import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import StructType

from tupletree.errors import FailedException, UnavailableError, UsageError
from tupletree.outputs import DEFAULT_STREAM, FieldsDeclarer
from tupletree.spark import session
from tupletree.spark.failures import BatchFailedError, SparkLostError, explain, is_session_lost
from tupletree.spark.streaming import rows
from tupletree.spark.streaming.ddl import parse_schema
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchBolt
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkBatchBolt(BatchBolt):
    """A batch bolt written as a function from DataFrame to DataFrame.

    The batch's tuples go to Spark through Arrow, without the attempt. The result is collected and emitted. So this bolt
    is for batches that fit into a worker; use a Pipeline for larger batches.

    Attributes:
        outputs: the columns of the result to emit, also with ``attempt`` before them.
        schema: the columns of the batch, in Spark's DDL. Each column is a field of the tuples. By default all fields,
            with the types that Arrow infers from the values.

    The bolt uses the session of the process (``spark.*`` keys of the configuration). The session starts with the first
    batch and stops when the process ends. A subclass that also inherits ``Committer`` processes in the commit phase.
    """

    blocking = True
    schema: ClassVar[str | StructType | None] = None
    _gathered: dict[tuple[str, ...], list[Sequence[Any]]] | None = None

    def process(self, batch: DataFrame) -> DataFrame | None:
        """Return the result of a batch: the same rows for the same input, in any order. None: nothing is emitted.

        Called in each task that has tuples of the batch. An exception fails the batch and is reported.
        """
        raise NotImplementedError

    def execute(self, tup: Tuple) -> None:
        if self._gathered is None:
            self._gathered = {}
        self._gathered.setdefault(tup.fields, []).append(tup.values)

    def finish_batch(self) -> None:
        if not self._gathered:
            return
        try:
            table = _table(self._gathered, None if self.schema is None else _schema_json(self.schema))
            declared = self._fields()
            fields = [name for name in declared if name != ATTEMPT]
            result = self.process(_session(self._settings()).createDataFrame(table))
            if result is None:
                return
            missing = [name for name in fields if name not in result.columns]
            if missing:
                raise UsageError(
                    f"process returned the columns {', '.join(result.columns)}; outputs declares {', '.join(fields)}"
                )
            emitted = result.select(*(f"`{name.replace('`', '``')}`" for name in fields)).toArrow()
            columns = [column.to_pylist() for column in emitted.columns]
        except (FailedException, UnavailableError):
            raise
        except Exception as error:  # the user's, or Spark's
            raise self._failed(error) from error
        before = [self.batch_id] if ATTEMPT in declared else []
        self.collector.emit_many([*before, *row] for row in zip(*columns, strict=True))

    def _fields(self) -> list[str]:
        """Return the declared fields of the default stream."""
        declarer = FieldsDeclarer(self.context.component_id)
        self.declare_output_fields(declarer)
        stream = declarer.streams.get(DEFAULT_STREAM)
        return [] if stream is None else list(stream.fields)

    def _settings(self) -> str:
        return json.dumps({key: value for key, value in self.context.conf.items() if key.startswith("spark.")})

    def _failed(self, error: Exception) -> Exception:
        if is_session_lost(error):
            return SparkLostError(f"component {self.context.component_id!r}: the Spark session is gone: {error}")
        sentence, lines = (str(error), "") if isinstance(error, UsageError) else explain(error)
        failed = BatchFailedError(f"component {self.context.component_id!r}, {self.batch_id}: {sentence}")
        if lines:
            failed.add_note(lines)
        return failed


@functools.cache
def _session(settings: str) -> SparkSession:
    """Return the session, held until the process ends: a bolt is copied for each batch and gets no cleanup call."""
    acquired = session.acquire(json.loads(settings))
    atexit.register(session.release)
    return acquired


@functools.cache
def _schema_json(schema: str | StructType) -> str:
    return parse_schema(schema).json()


def _table(gathered: dict[tuple[str, ...], list[Sequence[Any]]], schema: str | None) -> pa.Table:
    """Return the tuples of a batch as a table. Raises UsageError."""
    if schema is not None:
        columns = rows.arrow_schema(schema)
        selects = [(rows.selector(fields, columns), values) for fields, values in gathered.items()]
        return rows.table([select(row) for select, values in selects for row in values], columns)
    if len(gathered) > 1:
        kinds = " and ".join(f"({', '.join(fields)})" for fields in gathered)
        raise UsageError(f"the tuples of a batch have different fields, {kinds}: name the columns in 'schema'")
    [(fields, values)] = gathered.items()
    return pa.table(
        {name: rows.inferred(name, [row[i] for row in values]) for i, name in enumerate(fields) if name != ATTEMPT}
    )
