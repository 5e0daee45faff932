"""The bolt that the emitters of a transactional spout run in.

batch tuple  ->  the emitter emits its share  ->  reports downstream, anchored to the batch tuple  ->  ack
commit tuple ->  a committing emitter commits                                                       ->  ack
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tupletree._daemon.logs import event
from tupletree.attempt import Attempts, TransactionAttempt
from tupletree.component import Bolt, BoltCollector, TopologyContext
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError
from tupletree.transactional.emission import Emission, Reports
from tupletree.transactional.spouts import CommittingEmitter, TransactionalSpout
from tupletree.transactional.streams import BATCH_STREAM, COMMIT_STREAM, REPORT
from tupletree.tuples import Tuple

log = logging.getLogger(__name__)


class EmitterBolt(Bolt):
    """Runs one emitter. It reads and writes its state in the store, so it has a thread of its own."""

    blocking = True

    def __init__(self, spout: TransactionalSpout) -> None:
        self.spout = spout

    def declare_output_fields(self, declarer: Any) -> None:
        self.spout.declare_output_fields(declarer)
        declarer.streams[REPORT.id] = REPORT  # last, so that it is flushed after what it reports

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.context = context
        self.collector = collector
        self._attempts = Attempts()
        self._reports = Reports(context, collector)
        self._emitter = self.spout.emitter(conf, context)

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
        attempt, metadata, committed = tup.values
        if self._attempts.has_seen(attempt):  # told twice; emitting it twice would spoil the counts
            self.collector.ack(tup)
            return
        if self._attempts.is_over(attempt):
            self.collector.fail(tup)
            return
        self._attempts.saw_committed(committed)
        self._attempts.saw(attempt)
        emission = Emission(attempt, self.context.component_id, self.collector)

        def emit() -> None:
            self._emitter.cleanup_before(committed)
            self._emitter.emit_batch(attempt, metadata, emission)

        if self._guarded(tup, attempt, emit):
            self._reports.send(emission, committed, tup)
            self.collector.ack(tup)

    def _commit(self, tup: Tuple) -> None:
        attempt: TransactionAttempt = tup.values[0]
        emitter = self._emitter
        if not isinstance(emitter, CommittingEmitter):
            self.collector.ack(tup)
        elif self._attempts.is_over(attempt):
            self.collector.fail(tup)
        elif self._guarded(tup, attempt, lambda: emitter.commit(attempt)):
            self.collector.ack(tup)

    def _guarded(self, tup: Tuple, attempt: TransactionAttempt, call: Callable[[], None]) -> bool:
        """Call the emitter; if it fails the attempt, fail the tuple and return False."""
        try:
            call()
        except (FailedException, UnavailableError) as error:
            if not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
                self.collector.report_error(error)
            event(log, "batch.failed", task=self.context.task_id, attempt=attempt, cause=error)
            self.collector.fail(tup)
            return False
        return True
