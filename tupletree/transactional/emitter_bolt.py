"""Bolt that runs an emitter of a transactional spout.

batch tuple  ->  the emitter emits its share  ->  reports downstream, anchored to the batch tuple  ->  ack
commit tuple ->  a committing emitter commits                                                       ->  ack
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tupletree._log import event
from tupletree._signatures import check_returned
from tupletree.attempt import Attempts, TransactionAttempt
from tupletree.component import RAISE_FAILED_FOR_BATCH, Bolt, BoltCollector, TopologyContext
from tupletree.errors import FailedException, ReportedFailedException, TopologyError, UnavailableError
from tupletree.transactional.attempt_field import Carried, carry_attempt
from tupletree.transactional.bolts import BatchCollector, Committer
from tupletree.transactional.emission import Reports, new_emission
from tupletree.transactional.spouts import CommittingEmitter, TransactionalSpout, TransactionEmitter, checked_part
from tupletree.transactional.streams import BATCH_STREAM, COMMIT_STREAM, REPORT, attempts_of
from tupletree.tuples import Tuple

log = logging.getLogger(__name__)


class EmitterBolt(Bolt):
    """Runs one emitter. The bolt has its own thread, because the emitter reads and writes the store.

    ``carried``: the declared fields of each stream, or None if the spout names the attempt (attempt_field.py).
    """

    _remedy = RAISE_FAILED_FOR_BATCH
    blocking = True
    holds_tuples = True
    carried: Carried | None = None  # of the class: spouts submitted by earlier versions name the attempt

    def __init__(self, spout: TransactionalSpout) -> None:
        self.spout = spout
        self._sizes: dict[int, int] = {}  # uncommitted txid -> number of tuples emitted

    @property
    def commits(self) -> bool:
        """True if the emitter takes part in the commit phase."""
        return isinstance(self.spout, Committer)

    @property
    def shows_attempt(self) -> bool:
        """True if a bolt that declares no outputs sees the attempt."""
        return self.carried is None and not self.spout.is_built_in

    def declare_output_fields(self, declarer: Any) -> None:
        self.spout.declare_output_fields(declarer)
        self.carried = carry_attempt(declarer)
        declarer.streams[REPORT.id] = REPORT  # last, so that reports are flushed after the tuples they count

    def component_configuration(self) -> Mapping[str, Any]:
        return self.spout.component_configuration()

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.context = context
        self.collector = collector
        self._attempts = Attempts()
        self._reports = Reports(context, collector)
        self._emitter = checked_part(TransactionEmitter, self.spout.emitter(conf, context), self.spout, context)
        commits = isinstance(self._emitter, CommittingEmitter)
        if commits != isinstance(self.spout, Committer):
            fault = "has an emitter that commits, but is not" if commits else "has no emitter that commits, but is"
            raise TopologyError(
                f"component {context.component_id!r}: {type(self.spout).__name__} {fault} marked as Committer",
                component=context.component_id,
            )

    def cleanup(self) -> None:
        self._emitter.close()

    def execute(self, tup: Tuple) -> None:
        if tup.source_stream == BATCH_STREAM:
            self._batch(tup)
        elif tup.source_stream == COMMIT_STREAM:
            self._commit(tup)
        else:
            self.collector.ack(tup)  # a tick belongs to no batch

    def _batch(self, tup: Tuple) -> None:
        attempt, _, committed = tup.values
        if self._attempts.has_seen(attempt):  # a duplicate: a second emission would falsify the counts
            self.collector.ack(tup)
            return
        if self._attempts.is_over(attempt):
            self.collector.fail(tup)
            return
        self._attempts.saw_committed(committed)
        self._attempts.saw(attempt)
        emission = new_emission(attempt, self.context.component_id, self.collector, self.carried)
        if self._guarded(tup, attempt, partial(self._emit, tup, emission, lambda: emission.rows)):
            self._reports.send(emission, committed, tup)
            self.collector.ack(tup)

    def _emit(self, tup: Tuple, collector: BatchCollector, rows: Callable[[], int]) -> None:
        """Let the emitter emit the batch that a tuple asks for, and check it. ``rows``: the number of emitted rows."""
        attempt, metadata, committed = tup.values
        self._emitter.cleanup_before(committed)
        emit_batch: Callable[..., object] = self._emitter.emit_batch
        returned = emit_batch(attempt, metadata, collector)
        check_returned(self.context.component_id, self._emitter, "emit_batch", returned)
        self._check_size(attempt, rows())

    def _check_size(self, attempt: TransactionAttempt, size: int) -> None:
        """Check the batch size of a replay, for a spout that must replay identical batches."""
        if isinstance(self.spout, Committer):
            return
        self._sizes = {txid: known for txid, known in self._sizes.items() if txid > self._attempts.committed}
        first = self._sizes.setdefault(attempt.txid, size)
        if size != first:
            raise ReportedFailedException(
                f"component {self.context.component_id!r}, transaction {attempt.txid}: emitted {size} tuples, but "
                f"{first} the first time; a transactional spout must emit the same batch for the same transaction; "
                f"for a source that cannot, use an OpaquePartitionedTransactionalSpout"
            )

    def _commit(self, tup: Tuple) -> None:
        emitter = self._emitter
        if isinstance(emitter, CommittingEmitter):
            for attempt in attempts_of(tup.values):
                if self._attempts.is_over(attempt) or not self._attempts.has_seen(attempt):
                    self.collector.fail(tup)  # another incarnation emitted the batch and had the data to commit
                    return
                if not self._guarded(tup, attempt, partial(emitter.commit, attempt)):
                    return
        self.collector.ack(tup)

    def _guarded(self, tup: Tuple, attempt: TransactionAttempt, call: Callable[[], None]) -> bool:
        """Call the emitter. If it fails the attempt, fail the tuple and return False."""
        try:
            call()
        except (FailedException, UnavailableError) as error:
            if not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
                self.collector.report_error(error)
            event(log, "batch.failed", task=self.context.task_id, attempt=attempt, cause=error)
            self.collector.fail(tup)
            return False
        return True
