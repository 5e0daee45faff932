"""The task that drives Spark for a pipeline: connects jobs.py, which decides, and driver.py, which executes.

batch tuple  ->  the source's emitter lists the splits  ->  Spark job  ->  rows and reports downstream  ->  ack
commit tuple ->  the sinks commit  ->  a committing emitter commits                                     ->  ack

A batch tuple is acked long after its arrival: every tick extends its timeout, for as long as the job runs.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from tupletree._log import event
from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, TopologyContext
from tupletree.errors import EmitError, FailedException, ReportedFailedException, UnavailableError, UsageError
from tupletree.spark.driver import Driver, Processed, now_s
from tupletree.spark.failures import SparkLostError, batch_failed, is_own_fault, is_session_lost
from tupletree.spark.jobs import Ack, Cancel, Commit, Effect, Fail, Finish, Jobs, Phase, Retries, Start, Stop
from tupletree.spark.processing import Processing
from tupletree.spark.progress import PipelineProgress
from tupletree.transactional.attempt_field import ATTEMPT
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.emission import Emission
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.opaque import OpaqueSpoutAdapter
from tupletree.transactional.spouts import CommittingEmitter, TransactionalSpout
from tupletree.transactional.streams import BATCH_STREAM, COMMIT_STREAM, REPORT
from tupletree.tuples import Tuple

log = logging.getLogger(__name__)

TICK_S = 0.5
"""Pause between two ticks, and so the maximum delay of the retry of a failed batch and of a timeout."""

BATCHES = 4
"""Default number of batches in progress at a time; ``topology.max.spout.pending`` overrides it."""


class BatchTimeoutError(Exception):
    """The job of a batch, or its commit, takes longer than ``pipeline.batch.timeout.secs``."""


class PipelineBolt(EmitterBolt):
    """The single task of a pipeline. ``spout``: the spout of the source, as a TransactionalSpout."""

    _remedy = ""

    def __init__(self, transactional_id: str, pipeline: Processing, spout: TransactionalSpout) -> None:
        super().__init__(spout)
        self.transactional_id = transactional_id
        self.pipeline = pipeline

    @property
    def commits(self) -> bool:
        return True

    @property
    def shows_attempt(self) -> bool:
        return False

    def declare_output_fields(self, declarer: Any) -> None:
        if self.pipeline.outputs:
            declarer.declare([ATTEMPT, *self.pipeline.outputs])
        declarer.streams[REPORT.id] = REPORT  # last, so that it is flushed after the rows that it reports

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        super().prepare(conf, context, collector)
        self._conf = conf  # of the task, whose keys can change while the topology runs
        self._jobs = Jobs(_retries(conf))
        self._attempts = self._jobs.attempts
        self._columns: dict[TransactionAttempt, list[list[Any]]] = {}
        is_opaque = isinstance(self.spout, OpaqueSpoutAdapter)
        self._driver = Driver(self.transactional_id, self.pipeline, is_opaque, conf, _workers(conf), self)
        self._progress = PipelineProgress(self._jobs, self._driver)
        context.register_status(self._progress.status)
        own = context.register_own
        own("pipeline_rows", "counter", "Rows committed by this task.", lambda: self._progress.rows_total)
        own("pipeline_batches", "counter", "Batches committed by this task.", lambda: self._progress.batches_total)
        own("pipeline_committed_txid", "gauge", "The last committed batch.", lambda: self._progress.committed_txid)
        own("pipeline_batches_in_flight", "gauge", "Batches that Spark processes, or that wait for Spark.",
            lambda: len(self._jobs.jobs))  # fmt: skip
        own("pipeline_stopped", "gauge", "1 if the pipeline has stopped at a batch that failed too often.",
            lambda: float(bool(self._progress.reason)))  # fmt: skip

    def cleanup(self) -> None:
        self._driver.close()
        super().cleanup()

    def execute(self, tup: Tuple) -> None:
        if tup.source_stream == BATCH_STREAM:
            self._batch(tup)
        elif tup.source_stream == COMMIT_STREAM:
            self._apply(self._jobs.commit(tup.values[0], tup))
        else:
            self._tick()
            self.collector.ack(tup)

    # Callbacks of the driver, on its threads. Each is passed on to the task's own thread.

    def ready(self) -> None:
        self.context.call_soon(self._ready)  # _progress might not exist yet

    def unavailable(self, error: BaseException) -> None:
        self.context.call_soon(functools.partial(self.collector.report_error, error))

    def broken(self, error: BaseException) -> None:
        self.context.call_soon(functools.partial(_raise, error))

    def processed(self, attempt: TransactionAttempt, done: Processed) -> None:
        self.context.call_soon(functools.partial(self._processed, attempt, done))

    def committed(self, attempt: TransactionAttempt) -> None:
        self.context.call_soon(functools.partial(self._committed, attempt))

    def failed(self, attempt: TransactionAttempt, doing: str, error: BaseException) -> None:
        self.context.call_soon(functools.partial(self._failed, attempt, doing, error))

    # The methods below run on the task's own thread.

    def _ready(self) -> None:
        self._progress.began()

    def _batch(self, tup: Tuple) -> None:
        attempt, _, committed = tup.values
        self._apply(self._jobs.saw_committed(committed))
        wanted = self._jobs.wants(attempt)
        if wanted is None:
            self.collector.ack(tup)
        elif not wanted:
            self.collector.fail(tup)
        else:
            splits = _Splits(self.context.component_id, attempt, self.collector)
            if self._guarded(tup, attempt, lambda: self._emit(tup, splits, lambda: len(splits.taken))):
                self._apply(self._jobs.batch(attempt, splits.taken, tup, now_s()))

    def _processed(self, attempt: TransactionAttempt, done: Processed) -> None:
        if done.columns is not None:
            self._columns[attempt] = done.columns
        self._apply(self._jobs.processed(attempt, done.rows))
        self._columns.pop(attempt, None)

    def _committed(self, attempt: TransactionAttempt) -> None:
        emitter = self._emitter
        job = self._jobs.jobs.get(attempt)
        if job is not None and isinstance(emitter, CommittingEmitter):
            try:
                emitter.commit(attempt)
            except (FailedException, UnavailableError) as error:
                self._failed(attempt, "committing", error)
                return
        if job is not None:
            self._progress.committed(job, now_s())
        self._apply(self._jobs.committed(attempt))

    def _failed(self, attempt: TransactionAttempt, doing: str, error: BaseException) -> None:
        job = self._jobs.jobs.get(attempt)
        if is_session_lost(error):
            raise SparkLostError(f"the Spark session is gone, noticed while {doing} {attempt}: {error}") from None
        if job is None:
            return
        is_fault = is_own_fault(error)
        shown = batch_failed(attempt, job.splits, doing, error) if is_fault else error
        if is_fault or not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
            self.collector.report_error(shown)
        event(log, "batch.failed", task=self.context.task_id, attempt=attempt, doing=doing, cause=shown)
        self._progress.failed(job, str(shown))
        self._apply(self._jobs.failed(attempt, is_own_fault=is_fault))

    @property
    def _limit_s(self) -> float:
        return float(self._conf["pipeline.batch.timeout.secs"])

    def _tick(self) -> None:
        self._jobs.retries = _retries(self._conf)
        for control in self._jobs.held():
            self.collector.reset_timeout(control)
        for attempt in self._jobs.overdue(Phase.RUNNING, now_s(), self._limit_s):
            self._failed(attempt, "processing", self._overdue())
        for attempt in self._jobs.overdue(Phase.COMMITTING, now_s(), self._limit_s):
            # The thread cannot be interrupted, and every later commit waits for it. Only a new worker helps.
            raise BatchTimeoutError(
                f"the commit of {attempt} has not ended after {self._limit_s:g} s, and the worker restarts; if this "
                f"persists, find out what holds the sink up, or raise pipeline.batch.timeout.secs"
            )
        self._apply(self._jobs.due(now_s()))
        self._driver.refresh()

    def _overdue(self) -> Exception:
        """Return why a job has no result yet. A slow start of Spark or the sinks is no fault of the batch."""
        if self._progress.is_ready:
            return BatchTimeoutError(f"no result after {self._limit_s:g} s")
        return UnavailableError(f"the Spark session and the sinks are not ready after {self._limit_s:g} s")

    def _apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start(job):
                    self._driver.start(job)
                case Cancel(attempt):
                    self._driver.cancel(attempt)
                case Finish(job, control):
                    self._finish(job.attempt, control)
                case Commit(job):
                    job.started_s = now_s()
                    self._driver.commit(job.attempt)
                case Ack(control):
                    self.collector.ack(control)
                case Fail(control):
                    self.collector.fail(control)
                case Stop(job, failures):
                    self._stop(job.attempt, failures)
                case _:
                    assert_never(effect)

    def _finish(self, attempt: TransactionAttempt, control: Tuple) -> None:
        """Emit the rows of a batch, if any, and report their number to the downstream tasks."""
        emission = Emission(attempt, self.context.component_id, self.collector)
        columns = self._columns.pop(attempt, None)
        if columns is not None:
            emission.emit_many([attempt, *row] for row in zip(*columns, strict=True))
        self._reports.send(emission, self._jobs.attempts.committed, control)
        self.collector.ack(control)

    def _stop(self, attempt: TransactionAttempt, failures: int) -> None:
        self._progress.stopped(attempt, failures)
        self.collector.report_error(UsageError(self._progress.reason))
        event(log, "pipeline.stopped", level=logging.ERROR, attempt=attempt, reason=self._progress.reason)


class _Splits(BatchCollector):
    """Collects the splits of a batch, as emitted by the source's emitter."""

    def __init__(self, component_id: str, attempt: TransactionAttempt, collector: BoltCollector) -> None:
        self.taken: list[Any] = []
        self._component_id = component_id
        self._attempt = attempt
        self._collector = collector

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        match values:
            case [TransactionAttempt() as attempt, split] if attempt == self._attempt:
                self.taken.append(split)
                return ()
            case [split] if not isinstance(split, TransactionAttempt):
                self.taken.append(split)
                return ()
        raise EmitError(
            f"component {self._component_id!r}: the spout of the source emitted {values!r} on stream {stream!r} for "
            f"{self._attempt}; [split] was expected, or [attempt, split] with that attempt"
        )

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)


def _retries(conf: Mapping[str, Any]) -> Retries:
    return Retries(
        conf["pipeline.max.attempts"] or None,
        conf["pipeline.retry.pause.secs"],
        conf["pipeline.retry.longest.pause.secs"],
    )


def _workers(conf: Mapping[str, Any]) -> int:
    """Return the number of job threads. A cancelled job can still run alongside the next attempt of its batch."""
    return 2 * (conf.get("topology.max.spout.pending") or BATCHES)


def _raise(error: BaseException) -> None:
    raise error
