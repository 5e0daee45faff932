"""Progress of a pipeline, for ``describe``, ``monitor`` and metrics."""

from __future__ import annotations

from collections import deque
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.spark.driver import Driver, now_s
from tupletree.spark.failures import shorten
from tupletree.spark.jobs import Job, Jobs, Phase

WINDOW_S = 30.0
"""Number of seconds over which rates are computed."""

TIMES = 500
"""Number of recent batches over which percentiles are computed."""


class PipelineProgress:
    """Counters and recent batches of a pipeline, written by its task and read by any thread."""

    def __init__(self, jobs: Jobs, driver: Driver) -> None:
        self.committed_txid = 0
        self.rows_total = 0
        self.batches_total = 0
        self.reason = ""
        self._jobs = jobs
        self._driver = driver
        self.is_ready = False
        self._began_s = now_s()
        self._last_failure: dict[int, str] = {}
        self._recent: deque[tuple[float, int, float]] = deque(
            maxlen=TIMES
        )  # when, rows, seconds from arrival to commit

    def began(self) -> None:
        """The session has started."""
        self.is_ready = True
        self._began_s = now_s()

    def committed(self, job: Job, at_s: float) -> None:
        """A batch was committed."""
        self.committed_txid = job.attempt.txid
        self.rows_total += job.rows or 0
        self.batches_total += 1
        self._recent.append((at_s, job.rows or 0, at_s - job.arrived_s))
        self._last_failure.pop(job.attempt.txid, None)

    def failed(self, job: Job, why: str) -> None:
        """A batch failed."""
        self._last_failure[job.attempt.txid] = f"{why.partition('; the batch is ')[0]}\n{shorten(job.splits)}"

    def stopped(self, attempt: TransactionAttempt, failures: int) -> None:
        """The pipeline stopped at a batch."""
        why, _, splits = self._last_failure.get(attempt.txid, "").partition("\n")
        self.reason = (
            f"pipeline {self._driver.transactional_id!r} stopped at transaction {attempt.txid}, after "
            f"{failures} attempts: {why}. The batch is {splits}. Nothing is lost: all earlier batches are committed. "
            "Fix the fault and submit the topology again: the pipeline then continues with this batch"
        )

    def status(self) -> dict[str, Any]:
        """Return the status of the pipeline's task for ``describe``."""
        now = now_s()
        recent = [entry for entry in list(self._recent) if entry[0] >= now - WINDOW_S]
        span_s = max(1.0, min(WINDOW_S, now - self._began_s))
        times = sorted(seconds for _, _, seconds in list(self._recent))
        return {
            "kind": "pipeline",
            "state": "stopped" if self.reason else "running" if self.is_ready else "starting",
            "reason": self.reason,
            "committed_txid": self.committed_txid,
            "batches": [self._batch(job, now) for job in list(self._jobs.jobs.values())],
            "rows_total": self.rows_total,
            "rows_per_s": round(sum(rows for _, rows, _ in recent) / span_s, 1),
            "batches_total": self.batches_total,
            "batch_s": {"p50": _percentile(times, 0.5), "p99": _percentile(times, 0.99)},
            "spark": self._driver.about,
        }

    def _batch(self, job: Job, now: float) -> dict[str, Any]:
        waits = job.phase is Phase.WAITING
        return {
            "txid": job.attempt.txid,
            "phase": job.phase.value,
            "age_s": round(now - job.arrived_s, 2),
            "rows": job.rows,
            "failures": self._jobs.failures(job.attempt.txid),
            "retry_in_s": round(max(0.0, job.not_before_s - now), 1) if waits else None,
            "job": self._driver.links.get(job.attempt, ""),
        }


def _percentile(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(share * len(values)))], 3) if values else None
