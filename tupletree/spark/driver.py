"""The Spark driver of a pipeline: threads that run the jobs of several batches at once, and one thread that commits.

The driver decides nothing. jobs.py decides which batch to start, cancel and commit; the driver reports the outcome to
the pipeline's task. There are four kinds of threads:

* One thread per job, since Spark lets several threads submit jobs to one session. All jobs of a pipeline share one pool
  of Spark's FAIR scheduler. Within the pool, the earliest batch, which commits next, goes first; later batches take the
  cores left over. Each job has a group (on Spark Connect a tag), by which the job is cancelled.
* One thread that starts the session, then commits, and removes the staged data of attempts that are over. These steps
  run one after the other, so nothing is removed while it is being committed.
* One thread that cancels jobs, so that no other thread waits for Spark's scheduler.
* With Spark Connect, one thread that checks that the server is reachable, since a cancellation waits for minutes if the
  server is gone.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tupletree._log import event
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.spark import session
from tupletree.spark.failures import SparkLostError
from tupletree.spark.jobs import Job
from tupletree.spark.processing import Processing
from tupletree.spark.results import emitted, made_by, observed
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.threads import Threads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

log = logging.getLogger(__name__)

R = TypeVar("R")

REMOTE_TASKS = 8
"""Tasks of a job on Spark Connect if ``spark.default.parallelism`` is not set."""

RETRY_S = 1.0
"""Pause between two attempts to reach Spark or to open a sink, while either is unavailable."""

REACH_PAUSE_S = 5.0
"""Pause between two checks that a Spark Connect server is reachable."""

LOST_S = 10.0
"""Time without an answer after which a Spark Connect server is considered gone."""

CLOSE_S = 4.0
"""Maximum time for an orderly shutdown. Work that takes longer is not waited for, and may end with the process."""


@dataclass(frozen=True, slots=True)
class Processed:
    """Result of a job: the number of rows read (None if unknown) and the columns to emit (None if there are none)."""

    rows: int | None
    columns: list[list[Any]] | None


class Events(Protocol):
    """Callbacks of the driver. The driver may call them from any of its threads."""

    def ready(self) -> None:
        """The session has started and the sinks are open."""

    def unavailable(self, error: BaseException) -> None:
        """Spark or a sink is unavailable. The driver tries again."""

    def broken(self, error: BaseException) -> None:
        """The session cannot be started or is lost for good."""

    def processed(self, attempt: TransactionAttempt, done: Processed) -> None:
        """A job is done."""

    def committed(self, attempt: TransactionAttempt) -> None:
        """Every sink has committed."""

    def failed(self, attempt: TransactionAttempt, doing: str, error: BaseException) -> None:
        """A job or a commit failed."""


@dataclass(slots=True)
class _Batch:
    """State of an attempt, from its start until the attempt is committed or removed."""

    staged: list[Any] = field(default_factory=list)  # the return values of ``stage``, per sink
    shared: DataFrame | None = None  # the persisted result, if it has several consumers
    is_running: bool = True
    is_over: bool = False


class _CancelledError(Exception):
    """The attempt is over; nobody waits for its result."""


class Driver:
    """Drives Spark for one pipeline, until ``close``. ``workers``: maximum number of concurrent jobs."""

    def __init__(
        self,
        transactional_id: str,
        pipeline: Processing,
        is_opaque: bool,
        conf: Mapping[str, Any],
        workers: int,
        events: Events,
    ) -> None:
        self.transactional_id = transactional_id
        self._pipeline = pipeline
        self._sinks: Sequence[Sink] = pipeline.all_sinks()
        self._is_opaque = is_opaque
        self._conf = conf
        self._events = events
        self.about = {"master": session.master_of(conf)}
        self.links: dict[TransactionAttempt, str] = {}  # the last job of each attempt in Spark's UI
        self._spark: SparkSession | None = None
        self._reached_s = now_s()
        self._own = uuid.uuid4().hex[:8]  # in group names: a session never runs a cancelled group again
        self._is_ready = threading.Event()
        self._first: TransactionAttempt | None = None
        self._is_warm = threading.Event()  # the first job has ended
        self._is_closing = threading.Event()
        self._has_ended = threading.Event()
        self._batches: dict[TransactionAttempt, _Batch] = {}
        self._lock = threading.Lock()  # held while deciding which thread removes a batch's staged data
        self._jobs = Threads(workers, "spark-job")
        self._commits = Threads(1, "spark-commit")
        self._cancels = Threads(1, "spark-cancel")
        self._looks = Threads(1, "spark-look")
        self._commits.submit(self._open)

    def start(self, job: Job) -> None:
        """Run the job of a batch. The very first job runs alone: a cold JVM finishes one job sooner than four."""
        self._first = self._first or job.attempt
        self._batches[job.attempt] = _Batch()
        self._jobs.submit(self._run, job)

    def cancel(self, attempt: TransactionAttempt) -> None:
        """End an attempt, started or not: cancel its job or remove its staged data."""
        batch = self._batches.get(attempt)
        if batch is None:
            return
        with self._lock:
            batch.is_over = True
            is_running = batch.is_running
        if is_running:
            self._cancels.submit(self._interrupt, attempt)
        else:
            self._commits.submit(self._discard, attempt)

    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit the staged data of an attempt."""
        self._commits.submit(self._commit, attempt)

    def close(self) -> None:
        """Stop the session. Work in progress is abandoned, except for a commit that has begun."""
        self._is_closing.set()
        self._cancels.submit(self._interrupt_all)
        self._commits.submit(self._end)
        if self._has_ended.wait(CLOSE_S):
            self._commits.close(CLOSE_S)  # its thread has nothing more to do than to end

    def _interrupt_all(self) -> None:
        while not self._has_ended.wait(0.2):
            for attempt, batch in list(self._batches.items()):
                if batch.is_running:
                    self._interrupt(attempt)

    def _end(self) -> None:
        """Discard staged data, close the sinks and release the session. Runs after any open or commit in progress."""
        self._jobs.close(CLOSE_S)
        if self._spark is not None:
            for attempt in [attempt for attempt, batch in list(self._batches.items()) if not batch.is_running]:
                self._discard(attempt)
            for sink in self._sinks:
                try:
                    sink.close()
                except Exception as error:
                    event(log, "pipeline.sink_not_closed", sink=type(sink).__name__, cause=error)
            session.release()
        self._has_ended.set()
        for threads in (self._cancels, self._looks, self._commits):
            threads.close(0.0)

    def refresh(self) -> None:
        """Refresh the links to Spark's UI, and again cancel running jobs of attempts that are over."""
        if self._spark is not None:
            self._cancels.submit(self._refresh)
            if self._is_remote:
                self._looks.submit(self._reach_server)

    def _refresh(self) -> None:
        for attempt, batch in list(self._batches.items()):
            if batch.is_over and batch.is_running:
                self._interrupt(attempt)
        if not self._is_remote:
            self._find_links()

    def _reach_server(self) -> None:
        """Check that the Connect server is reachable: calls to a server that is gone are retried for ten minutes."""
        silent_s = now_s() - self._reached_s
        if silent_s < REACH_PAUSE_S:
            return
        try:
            session.reach(self._conf["spark.remote"])
            self._reached_s = now_s()
        except UnavailableError as error:
            if silent_s > LOST_S:
                self._break(SparkLostError(f"the Spark session is gone: {error}"))

    def _find_links(self) -> None:
        assert self._spark is not None
        context = self._spark.sparkContext
        with contextlib.suppress(Exception):  # the session is lost: its next user reports the loss
            url = context.uiWebUrl or ""
            tracker = context.statusTracker()
            found = {attempt: tracker.getJobIdsForGroup(self._group(attempt)) for attempt in list(self._batches)}
            self.links = {attempt: f"{url}/jobs/job/?id={max(ids)}" for attempt, ids in found.items() if ids and url}

    @property
    def _is_remote(self) -> bool:
        return "spark.remote" in self._conf

    def _group(self, attempt: TransactionAttempt) -> str:
        return f"{self.transactional_id}-{attempt.txid}-{attempt.attempt}-{self._own}"

    def _open(self) -> None:
        spark = self._spark = self._insist(lambda: session.acquire(self._conf))
        if spark is None:
            return
        self._reached_s = now_s()
        if not self._is_remote:
            self._insist(functools.partial(self._ask_about, spark))
        scope = SinkScope(self.transactional_id, self._is_opaque, spark)
        for sink in self._sinks:
            self._insist(functools.partial(sink.open, scope))
        if not self._is_closing.is_set():
            self._is_ready.set()
            self._events.ready()

    def _ask_about(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self.about = {
            "master": str(context.master),
            "ui": context.uiWebUrl or "",
            "app_id": context.applicationId or "",
        }

    def _insist(self, work: Callable[[], R]) -> R | None:
        """Do the work, retrying while Spark or a sink is unavailable. None if the work fails or the driver closes."""
        while not self._is_closing.is_set():
            try:
                return work()
            except UnavailableError as error:
                self._events.unavailable(error)
            except BaseException as error:
                self._break(error)
                return None
            self._is_closing.wait(RETRY_S)
        return None

    def _break(self, error: BaseException) -> None:
        """Give up the session. Jobs stop waiting for the session, so that they do not delay the end of the process."""
        self._is_closing.set()
        self._events.broken(error)

    def _run(self, job: Job) -> None:
        attempt, batch = job.attempt, self._batches[job.attempt]
        doing = "reading"
        done: Processed | None = None
        failure: BaseException | None = None
        try:
            for awaited in (self._is_ready,) if attempt == self._first else (self._is_ready, self._is_warm):
                while not awaited.wait(0.2):
                    self._check(batch)
            self._check(batch)
            self._tag(attempt)
            frame, rows = self._read(job.splits)
            doing = "processing"
            done = self._stage(job, batch, frame, rows)
        except BaseException as error:  # SystemExit too: the user's code may do anything
            failure = error
        if attempt == self._first:
            self._is_warm.set()
        with self._lock:
            batch.is_running = False
            is_over = self._is_closing.is_set() or batch.is_over
        if is_over:
            self._commits.submit(self._discard, attempt)
        elif failure is not None:
            self._events.failed(attempt, doing, failure)
        elif done is not None:
            self._events.processed(attempt, done)

    def _read(self, splits: Sequence[Any]) -> tuple[DataFrame, Observation]:
        import pyspark.sql.functions as F
        from pyspark.sql import Observation

        assert self._spark is not None
        source = self._pipeline.source
        frame = source.dataframe(self._spark, source.divide(splits, self._cores()))
        rows = Observation()
        return frame.observe(rows, F.count(F.lit(1)).alias("rows")), rows

    def _cores(self) -> int:
        """Number of tasks that a job should have. A Connect server does not report its number of cores."""
        assert self._spark is not None
        if self._is_remote:
            return int(self._conf.get("spark.default.parallelism") or REMOTE_TASKS)
        return max(2, self._spark.sparkContext.defaultParallelism)

    def _stage(self, job: Job, batch: _Batch, frame: DataFrame, rows: Observation) -> Processed:
        """Process a batch and hand the result to each sink. The result is computed once, even for several sinks."""
        positions = self._pipeline.source.positions_after(job.splits)
        result = made_by("process", self._pipeline, self._pipeline.process(frame))
        emits = bool(self._pipeline.outputs)
        if len(self._sinks) + emits > 1:
            result = batch.shared = result.persist()
        for sink in self._sinks:
            self._check(batch)
            sink.stage_positions(job.attempt, positions)
            batch.staged.append(sink.stage(job.attempt, result))
        columns = None
        if emits:
            self._check(batch)
            columns = emitted(self._pipeline, made_by("emit", self._pipeline, self._pipeline.emit(result)))
        return Processed(observed(rows), columns)

    def _commit(self, attempt: TransactionAttempt) -> None:
        batch = self._batches[attempt]
        if batch.is_over or self._is_closing.is_set():
            return
        try:
            for sink, staged in zip(self._sinks, batch.staged, strict=True):
                sink.commit(attempt, staged)
        except BaseException as error:
            self._events.failed(attempt, "committing", error)
            return
        del self._batches[attempt]
        self._unpersist(batch)
        self._events.committed(attempt)

    def _tag(self, attempt: TransactionAttempt) -> None:
        """Mark the jobs of this thread as belonging to an attempt."""
        assert self._spark is not None
        if self._is_remote:
            self._spark.clearTags()
            self._spark.addTag(self._group(attempt))
        else:
            context = self._spark.sparkContext
            context.setJobGroup(self._group(attempt), f"{self.transactional_id}: {attempt}", interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", self.transactional_id)

    def _interrupt(self, attempt: TransactionAttempt) -> None:
        if self._spark is None:
            return
        try:
            if self._is_remote:
                self._spark.interruptTag(self._group(attempt))
            else:
                # Cancel future jobs too: the thread may be about to submit one. PySpark has no method for this.
                self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group(attempt))
        except Exception as error:  # the session is lost: its next user reports the loss
            event(log, "pipeline.not_cancelled", attempt=attempt, cause=error)

    def _discard(self, attempt: TransactionAttempt) -> None:
        """Remove the staged data of an attempt that is over."""
        batch = self._batches.pop(attempt, None)
        if batch is None or self._spark is None:
            return
        self._unpersist(batch)
        for number, sink in enumerate(self._sinks):
            try:
                sink.discard(attempt, batch.staged[number] if number < len(batch.staged) else None)
            except Exception as error:
                event(log, "pipeline.not_discarded", attempt=attempt, sink=type(sink).__name__, cause=error)

    def _unpersist(self, batch: _Batch) -> None:
        if batch.shared is not None:
            with contextlib.suppress(Exception):  # the session is lost, and with it the persisted data
                batch.shared.unpersist()

    def _check(self, batch: _Batch) -> None:
        if batch.is_over or self._is_closing.is_set():
            raise _CancelledError


def now_s() -> float:
    """Return the current time of the monotonic clock used to time jobs."""
    return time.monotonic()
