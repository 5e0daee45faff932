"""Latencies as counts by bucket: what travels in TaskStats, and how a percentile is read from it.

Bucket ``i`` counts latencies above bound ``i - 1`` and up to bound ``i``; the last bucket has no upper bound. Counts of
several tasks, or of two moments, are added or subtracted bucket by bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

BOUNDS_S: Final = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075),
    *(0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0),
)
BUCKETS: Final = len(BOUNDS_S) + 1


def bucket_of(latency_s: float) -> int:
    """The bucket that counts a latency."""
    return bisect_left(BOUNDS_S, latency_s)


def percentile_s(counts: Sequence[int], share: float) -> float | None:
    """The latency in seconds that ``share`` (0 to 1) of the counted ones do not exceed; None if there are none.

    Linear within a bucket, so at most a bucket's width from the truth; what lies beyond the last bound is shown as it.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below = share * total, 0
    for bucket, count in enumerate(counts):
        if count and below + count >= wanted:
            if bucket == len(BOUNDS_S):
                break
            low = BOUNDS_S[bucket - 1] if bucket else 0.0
            return low + (BOUNDS_S[bucket] - low) * max(0.0, wanted - below) / count
        below += count
    return BOUNDS_S[-1]
