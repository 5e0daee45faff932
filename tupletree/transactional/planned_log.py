"""A transactional spout over any log, also one whose partitions come and go, as files do.

The coordinator plans ranges of all partitions together (tupletree/connectors/log_plans.py), and the emitters read them:

    coordinator  --  {"read": …, "turn": …, "ranges": [[name, start, end], …]}  -->  emitter  --  rows  -->

So a batch is the same at every replay as long as the log has its messages, and emitters agree on it without
communication. Partitions need no numbers, and new ones can appear at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.connectors.arguments import check_instance, check_whole
from tupletree.connectors.formats import Format, checked_format
from tupletree.connectors.log_batches import OutOfRangeError, position
from tupletree.connectors.log_plans import Extents, Plan, plan_batch
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.log_spout import check_metadata
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.open_log import OpenLog, RowDecoder
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, TransactionEmitter

LOOK_S: Final = 0.01
"""Minimum pause between two looks at the log. Slow looks take at most a tenth of the time."""

DOUBT_S: Final = 5.0
"""Time without a batch after which the last known batch is verified: see PlanningCoordinator."""


class PlannedLogSpout(TransactionalSpout):
    """Emits the messages of a log, each in exactly one committed batch.

    ``limit``: the maximum size of a batch in the log's unit, of all partitions together, which take turns. A message
    that is larger is a batch of its own. ``metadata``: fields of the log's own that are added to each row.

    Each partition is read from its first position: a log with another begin, such as a KafkaLog with a ``start``, is
    refused, as TransactionalLogSpout is made for it.

    A message that cannot be decoded is reported, and left out. If a range cannot be read, its batch waits, and the
    error is reported: also if the log has deleted messages before they were read, or ends before what was read. The
    names and positions of all partitions are stored until the transactional id is deleted: the
    spout is intended for some thousands.

    Raises UsageError for invalid arguments.
    """

    is_built_in = True
    plan: Plan = staticmethod(plan_batch)

    def __init__(
        self, source: LogSource, format: Format | None = None, *, limit: int, metadata: Sequence[str] = ()
    ) -> None:
        owner = type(self).__name__
        check_instance(owner, "source", source, LogSource, "a LogSource such as TextFileLog('/var/log/app')")
        check_whole(owner, "limit", limit)
        if source.begins_at_end or source.begins_at_positions or not source.begins_at_first:
            raise UsageError(
                f"{owner}: source is a {type(source).__name__} that begins elsewhere than at the first position of "
                f"each partition, from which this spout reads; TransactionalLogSpout begins where such a log does"
            )
        self.source = source
        self.format = checked_format(self, format)
        self.limit = limit
        self.metadata = check_metadata(owner, source, self.format, metadata)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare([ATTEMPT, *self.format.fields, *self.metadata])

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PlanningCoordinator:
        return PlanningCoordinator(self, context.component_id)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> RangesEmitter:
        return RangesEmitter(self, context)


class PlanningCoordinator(TransactionCoordinator):
    """Plans the next batch ahead, so that ``is_ready`` answers quickly. The log is looked at every ``LOOK_S``.

    The plan follows the last batch planned here, which may differ from the last batch recorded: the store can have been
    unavailable when the batch was to be recorded, or another coordinator can have taken over. So after ``DOUBT_S``
    without a batch the coordinator reports ready even without new data, and learns the last transaction from
    ``initialize_transaction``.
    """

    def __init__(self, spout: PlannedLogSpout, component_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = OpenLog(spout.source, component_id)
        self._source = self._log.source
        self._limit = spout.limit
        self._plan = spout.plan
        self._clock = clock
        self._extents: Extents = ()
        self._look_at_s = -math.inf
        self._newest: Mapping[str, Any] | None = None  # metadata of the transaction believed to be the last
        self._doubt_at_s = math.inf
        self._next: dict[str, Any] | None = None
        self._is_planned = False  # True if ``_next`` follows ``_newest``, given the known extents

    def is_ready(self) -> bool:
        now_s = self._clock()
        if now_s >= self._look_at_s:
            self._look()
        if not self._is_planned:
            self._next = self._planned(self._newest)
            self._is_planned = True
        return self._next is not None or now_s >= self._doubt_at_s

    def initialize_transaction(self, txid: int, previous: Any) -> dict[str, Any]:
        if self._is_planned and previous == self._newest:
            made = self._next
        else:
            self._look()
            made = self._planned(previous)
        self._is_planned = False
        if made is None:
            self._newest, self._doubt_at_s = previous, math.inf
            raise FailedException(f"{self._source.title}: nothing is new for transaction {txid}")
        self._newest, self._doubt_at_s = made, self._clock() + DOUBT_S
        return made

    def lag(self) -> dict[str, int]:
        """Return the backlog at the last look: in units, and in partitions."""
        newest = self._newest
        read = {} if newest is None else newest["read"]
        rests = [bounds.end - read.get(name, bounds.first) for name, bounds in self._extents]
        rests = [rest for rest in rests if rest > 0]
        return {self._source.unit.replace(" ", "_"): sum(rests), self._source.partition_title: len(rests)}

    def close(self) -> None:
        self._log.close()

    def _look(self) -> None:
        began_s = self._clock()
        with self._log.use() as source:
            self._extents = source.extents()
        ended_s = self._clock()
        self._look_at_s = ended_s + max(LOOK_S, 10 * (ended_s - began_s))
        self._is_planned = False

    def _planned(self, previous: Mapping[str, Any] | None) -> dict[str, Any] | None:
        with self._log.use() as source:
            read = {} if previous is None else previous["read"]
            for name, bounds in self._extents:
                if bounds.end < read.get(name, 0):
                    source.limited(name, read[name], bounds.end, self._limit)  # raises a sentence of the log's own
                    self._check_end(name, read[name], bounds.end)
            return self._plan(self._extents, previous, self._limit, self._end)

    def _check_end(self, name: str, read: int, end: int) -> None:
        """Report a log that ends before what was read: it would go on in silence once it is longer."""
        try:
            position(name, [name, 0, read], end)
        except OutOfRangeError as error:
            raise self._log.fault(error) from None

    def _end(self, name: str, start: int, until: int, limit: int, may_exceed: bool) -> int | None:
        end = self._source.limited(name, start, until, limit)
        return end if may_exceed or end - start <= limit else None


class RangesEmitter(TransactionEmitter):
    """Reads a share of the ranges of a batch. Even with one partition, emitters take turns."""

    def __init__(self, spout: PlannedLogSpout, context: TopologyContext) -> None:
        self.log = OpenLog(spout.source, context.component_id)
        self._index = context.task_index
        self._tasks = len(context.component_tasks(context.component_id))
        self._decoder = RowDecoder(self.log, spout.format, spout.metadata)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        first = (self._index - attempt.txid) % self._tasks
        for name, start, end in metadata["ranges"][first :: self._tasks]:
            with self.log.use() as source:
                try:
                    self.emit_range(source, attempt, [name, start, end], collector)
                except ReportedFailedException:
                    raise
                except FailedException as error:
                    raise self.log.fault(error) from error

    def emit_range(
        self, source: LogSource, attempt: TransactionAttempt, range: Sequence[Any], collector: BatchCollector
    ) -> None:
        """Emit the messages of a range."""
        name, start, end = range
        for records in source.read(name, start, end):
            for record in records:
                row = self._decoder.row(name, record, collector)
                if row is not None:
                    collector.emit([attempt, *row])

    def close(self) -> None:
        self.log.close()
