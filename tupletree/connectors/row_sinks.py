"""RowSinkBolt: a bolt that writes rows to a transactional sink at least once, in any topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._limits import shown
from tupletree._wire.codec import encode_value
from tupletree.batching_bolt import BatchingBolt
from tupletree.component import BoltCollector, TopologyContext
from tupletree.connectors.arguments import check_instance
from tupletree.connectors.transactional_sink import Row, TransactionalSink
from tupletree.errors import (
    ConfigError,
    FailedException,
    ReportedFailedException,
    UnavailableError,
    UnregisteredTypeError,
    UsageError,
)
from tupletree.tuples import Tuple


class RowSinkBolt(BatchingBolt):
    """Writes each tuple as a row, in batches: at least once. A tuple whose batch fails is written again.

    A row that replaces the row of its key may be written twice without harm, unless a later row of the key was written
    in between: the earlier row is then back until the later tuple is replayed too, or a newer row comes.

    A batch has up to 500 tuples, gathered for at most 10 ms, or what the sink ``gathers``, as for a file. Raises
    ConfigError in ``prepare`` if tuples time out (``topology.message.timeout.secs``) while they are gathered.

    A tuple is acked when its row is written. While the system is away, or refuses the table, as for a missing column,
    tuples fail, and are replayed; the error says why. A row that cannot be stored, or that the system refuses for a
    reason of its own, fails alone and without a retry; the error names the value.

    Every input must have the fields of the sink, which is checked when the topology is built.

    Raises UsageError for a sink that is none, or that can be written in transactions alone.
    """

    blocking = True
    max_batch, max_wait_s = 500, 0.01

    def __init__(self, sink: TransactionalSink) -> None:
        self.sink = checked_sink(self, sink)
        if type(sink).write is TransactionalSink.write:
            raise UsageError(
                f"{type(self).__name__}: sink is a {type(sink).__name__}, which is written in transactions alone; one "
                f"with a method write was expected"
            )
        if sink.gathers is not None:
            self.max_batch, self.max_wait_s = sink.gathers

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields of the sink, which every input of this bolt must have; checked when the topology is built."""
        return tuple(self.sink.fields)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        timeout_s = conf["topology.message.timeout.secs"]
        if self.max_wait_s >= timeout_s:
            raise ConfigError(
                f"component {context.component_id!r} gathers rows for up to {self.max_wait_s} seconds, and tuples time "
                f"out after {timeout_s}: raise topology.message.timeout.secs to several times as much"
            )

    def cleanup(self) -> None:
        self.sink.close()

    def execute_batch(self, tuples: list[Tuple]) -> None:
        items, refused = sorted_rows(self.sink, tuples)
        for tup, error in refused:
            self._refuse(tup, error)
        if not items:
            return
        try:
            self._write([row for _, row in items])
        except UsageError:
            self._check_table()
            self._write_halves(items)

    def _write_halves(self, items: Sequence[tuple[Tuple, Row]]) -> None:
        """Write rows of which some are refused, in parts, to find these."""
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            try:
                if part:
                    self._write([row for _, row in part])
            except UsageError as fault:
                if len(part) == 1:
                    self._refuse(part[0][0], fault)
                else:
                    self._write_halves(part)

    def _write(self, rows: Sequence[Row]) -> None:
        try:
            self.sink.write(rows)
        except UnavailableError as error:
            raise ReportedFailedException(str(error)) from error

    def _check_table(self) -> None:
        """Fail the batch, to be replayed, if the system refuses the table, and not a row."""
        try:
            self._write([])
        except UsageError as error:
            raise ReportedFailedException(str(error)) from error

    def _refuse(self, tup: Tuple, error: UsageError) -> None:
        self.collector.report_error(UsageError(str(error)))  # the sentence says all that a traceback would
        self.collector.fail(tup, FailedException(str(error), retry=False))


def checked_sink(owner: object, sink: TransactionalSink) -> TransactionalSink:
    """Return a component's sink. UsageError, naming the owner's class, if it is none."""
    check_instance(type(owner).__name__, "sink", sink, TransactionalSink, "an object such as SqliteSink(…)")
    return sink


def sorted_rows(
    sink: TransactionalSink, tuples: Sequence[Tuple]
) -> tuple[list[tuple[Tuple, Row]], list[tuple[Tuple, UsageError]]]:
    """Return the tuples whose rows can be stored, with their rows, and the other tuples, with their errors."""
    items: list[tuple[Tuple, Row]] = []
    refused: list[tuple[Tuple, UsageError]] = []
    for tup in tuples:
        try:
            items.append((tup, tup.select(sink.fields)))
        except KeyError as error:
            refused.append((tup, UsageError(str(error.args[0]))))
    faults = sink.faults([row for _, row in items])
    refused += [(items[index][0], fault) for index, fault in faults.items()]
    return [item for index, item in enumerate(items) if index not in faults], refused


def plain_row(row: Sequence[Any]) -> list[Any]:
    """Return a row that every worker can send."""
    try:
        encode_value(list(row))
    except UnregisteredTypeError:
        return [shown(value) for value in row]
    return list(row)
