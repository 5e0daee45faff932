"""RowSink: writes the results of a pipeline to a TransactionalSink, as spouts and bolts do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.row_sinks import checked_sink
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import UsageError
from tupletree.spark.results import quoted
from tupletree.spark.sink import Sink, SinkScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowSink(Sink):
    """Writes the rows of each result to a TransactionalSink: exactly once, in one transaction for each batch.

        sinks = [RowSink(PostgresSink(URL, "totals", {"user": "string", "total": "bigint"}, key="user"))]

    The rows are collected in the driver, so a batch's result must fit into its memory. SqlState and RedisHashes write
    from Spark's executors, and add values up.

    A result without one of the sink's fields, and a value that cannot be stored, is a UsageError: it counts against
    ``pipeline.max.attempts``. Further columns are ignored. Of rows with one key, any can win: Spark's have no order.
    """

    def __init__(self, sink: TransactionalSink) -> None:
        self._sink = checked_sink(self, sink)

    def __repr__(self) -> str:
        return f"<RowSink, {self.target}>"

    @property
    def target(self) -> str:
        return self._sink.target

    @property
    def opaque_refusal(self) -> str:
        return self._sink.opaque_refusal

    def open(self, scope: SinkScope) -> None:
        self._sink.open(scope.transactional_id, is_opaque=scope.is_opaque)

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> list[tuple[Any, ...]]:
        missing = [name for name in self._sink.fields if name not in result.columns]
        if missing:
            raise UsageError(f"{self!r}: the result has no column {missing[0]!r}; it has {', '.join(result.columns)}")
        table = result.select([quoted(name) for name in self._sink.fields]).toArrow()
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        for fault in self._sink.faults(rows).values():
            raise fault
        return rows

    def commit(self, attempt: TransactionAttempt, staged: list[tuple[Any, ...]]) -> None:
        self._sink.commit(attempt, staged)

    def close(self) -> None:
        self._sink.close()
