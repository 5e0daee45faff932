"""The Spark driver of a pipeline: threads that run the jobs of several batches at once, and one that commits.

Nothing is decided here: which batch to start, cancel and commit is said by jobs.py, and what came of it is told to the
pipeline's task. Four sorts of threads:

* one for each job: Spark lets several threads submit jobs to one session. All jobs of a pipeline share one FAIR pool,
  in which the earliest batch goes first and later ones take the cores that it leaves; so the batch that commits next
  is the one that is helped. Each job has a group, or on Spark Connect a tag, by which it is cancelled.
* one that starts the session, then commits, and removes what attempts that are over have staged: one after the other,
  so nothing is removed that is just being committed.
* one that cancels, so that neither of the others waits for Spark's scheduler.
* with Spark Connect one that looks whether the server is there, since a cancellation waits for minutes if it is not.
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
from tupletree.spark.results import emitted, made_by, observed
from tupletree.spark.sink import Sink, SinkScope
from tupletree.spark.threads import Threads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    from tupletree.spark.pipeline import Pipeline

log = logging.getLogger(__name__)

R = TypeVar("R")

REMOTE_TASKS = 8
"""Tasks of a job on Spark Connect, where ``spark.default.parallelism`` does not say."""

RETRY_S = 1.0
"""Between two tries to reach Spark or to open a sink, while it is away."""

REACH_PAUSE_S = 5.0
"""Between two looks whether a Spark Connect server is there."""

LOST_S = 10.0
"""How long it may be silent."""

CLOSE_S = 4.0
"""How long an orderly end may take. What takes longer goes on without being waited for, or ends with the process."""


@dataclass(frozen=True, slots=True)
class Processed:
    """What a job has come to: how many rows the source had, if that is known, and the columns to emit, if any are."""

    rows: int | None
    columns: list[list[Any]] | None


class Events(Protocol):
    """What the driver tells, from any of its threads."""

    def ready(self) -> None:
        """The session is there and the sinks are open."""

    def unavailable(self, error: BaseException) -> None:
        """It is not, as Spark or a sink is away; it is tried again."""

    def broken(self, error: BaseException) -> None:
        """There will be no session."""

    def processed(self, attempt: TransactionAttempt, done: Processed) -> None:
        """A job is done."""

    def committed(self, attempt: TransactionAttempt) -> None:
        """Every sink has committed."""

    def failed(self, attempt: TransactionAttempt, doing: str, error: BaseException) -> None:
        """A job or a commit failed."""


@dataclass(slots=True)
class _Batch:
    """What is kept of an attempt, from its start until it is committed or removed."""

    staged: list[Any] = field(default_factory=list)  # what each sink has staged
    shared: DataFrame | None = None  # the result, while it is kept because several want it
    is_running: bool = True
    is_over: bool = False


class _CancelledError(Exception):
    """The attempt is over; nobody waits for what comes of it."""


class Driver:
    """Drives Spark for one pipeline, from its making to ``close``. ``workers``: how many jobs run at a time at most."""

    def __init__(
        self,
        transactional_id: str,
        pipeline: Pipeline,
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
        self.about = {"master": str(conf.get("spark.remote") or conf.get("spark.master") or "local[*]")}
        self.links: dict[TransactionAttempt, str] = {}  # where Spark's UI shows the last job of an attempt
        self._spark: SparkSession | None = None
        self._reached_s = now_s()
        self._own = uuid.uuid4().hex[:8]  # apart from an earlier driver's: in a session a group stays cancelled
        self._is_ready = threading.Event()
        self._first: TransactionAttempt | None = None
        self._is_warm = threading.Event()  # the first job has ended
        self._is_closing = threading.Event()
        self._has_ended = threading.Event()
        self._batches: dict[TransactionAttempt, _Batch] = {}
        self._lock = threading.Lock()  # held while it is decided who removes what a batch has staged
        self._jobs = Threads(workers, "spark-job")
        self._commits = Threads(1, "spark-commit")
        self._cancels = Threads(1, "spark-cancel")
        self._looks = Threads(1, "spark-look")
        self._commits.submit(self._open)

    def start(self, job: Job) -> None:
        """Run the job of a batch. The first of all runs alone: a cold JVM is done with one sooner than with four."""
        self._first = self._first or job.attempt
        self._batches[job.attempt] = _Batch()
        self._jobs.submit(self._run, job)

    def cancel(self, attempt: TransactionAttempt) -> None:
        """An attempt is over, whether it was started or not."""
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
        """Commit what a job has staged."""
        self._commits.submit(self._commit, attempt)

    def close(self) -> None:
        """Stop the session. What is under way is given up, except for a commit that has begun."""
        self._is_closing.set()
        self._cancels.submit(self._interrupt_all)
        self._commits.submit(self._end)
        self._has_ended.wait(CLOSE_S)

    def _interrupt_all(self) -> None:
        while not self._has_ended.wait(0.2):
            for attempt, batch in list(self._batches.items()):
                if batch.is_running:
                    self._interrupt(attempt)

    def _end(self) -> None:
        """What is done last, behind whatever is just opened or committed."""
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
        self._cancels.close(0.0)
        self._looks.close(0.0)
        self._commits.close(0.0)

    def look(self) -> None:
        """Find out anew where Spark's UI shows the jobs that run; cancel again what has only begun since."""
        if self._spark is not None:
            self._cancels.submit(self._look)
            if self._is_remote:
                self._looks.submit(self._reach_server)

    def _look(self) -> None:
        for attempt, batch in list(self._batches.items()):
            if batch.is_over and batch.is_running:
                self._interrupt(attempt)
        if not self._is_remote:
            self._find_links()

    def _reach_server(self) -> None:
        """Find out whether the Connect server has gone: calls to it would be tried again for ten minutes."""
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
        with contextlib.suppress(Exception):  # the session is lost: whoever uses it next finds out
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
        """Do it, however long something is away. None if it cannot be done, or is not needed any more."""
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
        """There will be no session: jobs that wait for it must not hold the process, which ends now."""
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
            done = self._stage(attempt, batch, frame, rows)
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
        """How many tasks a job should have. A Connect server does not say how many cores there are."""
        assert self._spark is not None
        if self._is_remote:
            return int(self._conf.get("spark.default.parallelism") or REMOTE_TASKS)
        return max(2, self._spark.sparkContext.defaultParallelism)

    def _stage(self, attempt: TransactionAttempt, batch: _Batch, frame: DataFrame, rows: Observation) -> Processed:
        """Process a batch; hand the result to each sink. It is computed once, however many want it."""
        result = made_by("process", self._pipeline, self._pipeline.process(frame))
        emits = bool(self._pipeline.outputs)
        if len(self._sinks) + emits > 1:
            result = batch.shared = result.persist()
        for sink in self._sinks:
            self._check(batch)
            batch.staged.append(sink.stage(attempt, result))
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
        """Mark the jobs of this thread as those of an attempt."""
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
                # Of the future ones too: the thread may be about to submit one. PySpark's own method knows no such.
                self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group(attempt))
        except Exception as error:  # the session is lost: whoever uses it next finds out
            event(log, "pipeline.not_cancelled", attempt=attempt, cause=error)

    def _discard(self, attempt: TransactionAttempt) -> None:
        """Remove what an attempt that is over has staged."""
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
            with contextlib.suppress(Exception):  # the session is lost: so is what it kept
                batch.shared.unpersist()

    def _check(self, batch: _Batch) -> None:
        if batch.is_over or self._is_closing.is_set():
            raise _CancelledError


def now_s() -> float:
    """Of the clock that jobs are timed by."""
    return time.monotonic()
