"""Metrics of the checkpoint spout."""

from __future__ import annotations  # pure

from collections.abc import Callable
from typing import Any

from tupletree.context import TopologyContext


def register_metrics(
    context: TopologyContext,
    durations: Callable[[], Any],
    *,
    committed_txid: Callable[[], float],
    since_commit_s: Callable[[], float],
    interval_s: Callable[[], float],
    failures: Callable[[], float],
) -> None:
    """Register what the arguments return under the names of docs/metrics.md."""
    own = context.register_own
    own("checkpoints_committed_txid", "gauge", "The last committed checkpoint.", committed_txid)
    own(
        "checkpoints_since_commit_seconds", "gauge",
        "Time since the last checkpoint was committed, or since this spout began.",
        since_commit_s,
    )  # fmt: skip
    own("checkpoints_interval_seconds", "gauge", "Configured pause between checkpoints.", interval_s)
    own("checkpoints_failures", "gauge", "Attempts that failed since the last checkpoint.", failures)
    own("checkpoints_duration_seconds", "histogram", "From PREPARE to the end of COMMIT.", durations)
