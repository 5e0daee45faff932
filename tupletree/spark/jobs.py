"""The batches of a pipeline in progress, and the next action for each. Pure code; pipeline_bolt.py carries it out.

    batch tuple --> (waiting for its retry) --> running --> processed --> committing --> gone
                                                   |                         |
                                                   +------- failed ----------+--> replayed, or stopped

* A batch tuple is held, neither acked nor failed, while its Spark job is waiting or running. When the job is done, the
  tuple is acked: to the coordinator, the batch is then processed.
* An attempt that is over (tupletree/attempt.py) is cancelled as soon as another attempt of its transaction, or of an
  earlier transaction, arrives. When a batch fails here, the later batches are cancelled at once, since the coordinator
  emits them again as well.
* A batch that fails through its own fault is retried after a growing pause, ``most`` attempts in all. Then the pipeline
  is *stopped*: the tuple is held forever, and every batch from this one on stays pending; nothing is lost. An earlier
  batch may still be replayed, and commit, or stop the pipeline in its turn.
  Failures that are not the batch's fault (such as an unavailable database) are retried forever.
* Retries are counted in this object only: a restarted driver counts from zero.

Times are seconds of a monotonic clock. ``control`` stands for a tuple that pipeline_bolt.py acks or fails.
"""

from __future__ import annotations  # pure

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tupletree.attempt import Attempts, TransactionAttempt


class Phase(enum.Enum):
    """Phase of a batch."""

    WAITING = "waiting"
    RUNNING = "running"
    PROCESSED = "processed"
    COMMITTING = "committing"
    STOPPED = "stopped"


@dataclass(slots=True)
class Job:
    """An attempt at a batch. ``control``: the tuple that the coordinator awaits now, or None."""

    attempt: TransactionAttempt
    splits: Sequence[Any]
    arrived_s: float
    control: Any
    phase: Phase = Phase.WAITING
    not_before_s: float = 0.0
    started_s: float = 0.0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Run the Spark job of a batch."""

    job: Job


@dataclass(frozen=True, slots=True)
class Cancel:
    """The attempt is over: stop its Spark job and remove its staged data."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is done: emit the rows, report, and ack the control."""

    job: Job
    control: Any


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the staged data of the job."""

    job: Job


@dataclass(frozen=True, slots=True)
class Ack:
    """Ack a control."""

    control: Any


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail a control."""

    control: Any


@dataclass(frozen=True, slots=True)
class Stop:
    """The pipeline stops at this batch, which has failed too often."""

    job: Job
    failures: int


Effect = Start | Cancel | Finish | Commit | Ack | Fail | Stop


@dataclass(frozen=True, slots=True)
class Retries:
    """Retry policy. ``most``: maximum number of attempts; None: retry forever."""

    most: int | None
    first_pause_s: float
    longest_pause_s: float

    def pause_s(self, failures: int) -> float:
        """Return the pause before the next attempt, after ``failures`` failures in a row."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 30)) if failures else 0.0


class Jobs:
    """The batches of one pipeline task. Effects must be carried out in the order in which they are returned."""

    def __init__(self, retries: Retries) -> None:
        self.attempts = Attempts()
        self.stopped_at: int | None = None  # the txid of the batch that failed too often
        self.retries = retries  # can be changed at any time
        self._jobs: dict[TransactionAttempt, Job] = {}
        self._tries: dict[int, int] = {}  # txid -> failures in a row, of any kind
        self._faults: dict[int, int] = {}  # txid -> failures that are the batch's own fault

    @property
    def jobs(self) -> Mapping[TransactionAttempt, Job]:
        """The jobs in progress."""
        return self._jobs

    def failures(self, txid: int) -> int:
        """Return the number of failures of a batch in a row."""
        return self._tries.get(txid, 0)

    def wants(self, attempt: TransactionAttempt) -> bool | None:
        """True if a batch tuple starts an attempt, False if the attempt is over, None if it is already known."""
        if self.attempts.has_seen(attempt):
            return None
        return not self.attempts.is_over(attempt)

    def batch(self, attempt: TransactionAttempt, splits: Sequence[Any], control: Any, now_s: float) -> list[Effect]:
        """Add a batch that ``wants`` accepted."""
        self.attempts.saw(attempt)
        effects = list(self._drop(job for job in self._jobs.values() if self.attempts.is_over(job.attempt)))
        pause_s = self.retries.pause_s(self._tries.get(attempt.txid, 0))
        job = self._jobs[attempt] = Job(attempt, splits, now_s, control, not_before_s=now_s + pause_s)
        if self.stopped_at is not None and attempt.txid >= self.stopped_at:
            job.phase = Phase.STOPPED
            return effects
        return [*effects, *self.due(now_s)]

    def due(self, now_s: float) -> list[Effect]:
        """Start the jobs whose pause has passed."""
        started = [
            job for job in self._jobs.values() if job.phase is Phase.WAITING and job.not_before_s <= now_s
        ]  # fmt: skip
        for job in started:
            job.phase, job.started_s = Phase.RUNNING, now_s
        return [Start(job) for job in started]

    def next_due_s(self) -> float | None:
        """Return the time at which the next waiting batch is due, or None."""
        return min((job.not_before_s for job in self._jobs.values() if job.phase is Phase.WAITING), default=None)

    def overdue(self, phase: Phase, now_s: float, limit_s: float) -> list[TransactionAttempt]:
        """Return the attempts that have been in ``phase`` for longer than ``limit_s``."""
        return [job.attempt for job in self._jobs.values() if job.phase is phase and now_s - job.started_s > limit_s]

    def processed(self, attempt: TransactionAttempt, rows: int | None) -> list[Effect]:
        """The Spark job of an attempt is done."""
        job = self._jobs.get(attempt)
        if job is None or job.phase is not Phase.RUNNING:
            return []
        job.phase, job.rows = Phase.PROCESSED, rows
        control, job.control = job.control, None
        return [Finish(job, control)]

    def commit(self, attempt: TransactionAttempt, control: Any) -> list[Effect]:
        """The coordinator lets an attempt commit. Fails an attempt unknown here, which an earlier driver processed.

        Also fails while an earlier transaction is in progress here: the call is a late one from a deposed coordinator.
        """
        job = self._jobs.get(attempt)
        if job is None or job.phase is not Phase.PROCESSED or any(one.txid < attempt.txid for one in self._jobs):
            return [Fail(control)]
        job.phase, job.control = Phase.COMMITTING, control
        return [Commit(job)]

    def committed(self, attempt: TransactionAttempt) -> list[Effect]:
        """A commit succeeded."""
        job = self._jobs.get(attempt)
        if job is None or job.phase is not Phase.COMMITTING:
            return []
        del self._jobs[attempt]
        return [Ack(job.control)]

    def saw_committed(self, txid: int) -> list[Effect]:
        """The coordinator has recorded every transaction up to ``txid`` as committed."""
        self.attempts.saw_committed(txid)
        for counts in (self._tries, self._faults):
            for settled in [other for other in counts if other <= txid]:
                del counts[settled]
        return list(self._drop(job for job in self._jobs.values() if job.attempt.txid <= txid))

    def failed(self, attempt: TransactionAttempt, *, is_own_fault: bool) -> list[Effect]:
        """The job or the commit of an attempt failed. ``is_own_fault``: False if something was unavailable."""
        job = self._jobs.get(attempt)
        if job is None or job.phase not in (Phase.RUNNING, Phase.COMMITTING):
            return []
        txid = attempt.txid
        self._tries[txid] = self._tries.get(txid, 0) + 1
        faults = self._faults[txid] = self._faults.get(txid, 0) + is_own_fault
        if is_own_fault and self.retries.most is not None and faults >= self.retries.most:
            return [Stop(job, faults), *self._stop(txid)]
        return list(self._drop(job for job in self._jobs.values() if job.attempt.txid >= txid))

    def _stop(self, txid: int) -> Iterator[Effect]:
        """Hold this batch and all later ones. Their results and staged data are no longer needed."""
        self.stopped_at = txid
        for job in self._jobs.values():
            if job.attempt.txid >= txid and job.phase is not Phase.STOPPED:
                job.phase = Phase.STOPPED
                yield Cancel(job.attempt)

    def held(self) -> list[Any]:
        """Return the tuples held, each the ``control`` of a job. The caller must extend their message timeouts."""
        return [job.control for job in self._jobs.values() if job.control is not None]

    def _drop(self, jobs: Iterator[Job]) -> Iterator[Effect]:
        """Forget jobs, and fail their controls."""
        for job in list(jobs):
            del self._jobs[job.attempt]
            yield Cancel(job.attempt)
            if job.control is not None:
                yield Fail(job.control)
