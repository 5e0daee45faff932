"""Latency histograms: the bucket counts in TaskStats, and percentiles computed from them.

Bucket ``i`` counts latencies above bound ``i - 1`` and up to bound ``i``; the last bucket has no upper bound. Counts of
several tasks are added, and those of two points in time subtracted, bucket by bucket. Trailing empty buckets can be
omitted.

The buckets are logarithmic: from a microsecond to 1,000 s, each bound is at most 10% above its predecessor. Metrics
use fewer bounds (``BOUNDS_S``), all of which are bounds here, too, so that ``coarse`` is exact.
"""

from __future__ import annotations  # pure

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

BOUNDS_S: Final = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075),
    *(0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0),
)
"""The bounds of the histograms on /metrics, where each bound costs a time series."""

_DECADE: Final = (
    *("1", "1.08", "1.17", "1.27", "1.38", "1.5", "1.6", "1.75", "1.9", "2", "2.15", "2.3", "2.5", "2.75"),
    *("3", "3.3", "3.6", "3.9", "4.25", "4.6", "5", "5.4", "5.9", "6.4", "6.9", "7.5", "8", "8.6", "9.3"),
)
FINE_BOUNDS_S: Final = (*(float(f"{step}e{power}") for power in range(-6, 3) for step in _DECADE), 1000.0)
BUCKETS: Final = len(FINE_BOUNDS_S) + 1
_FINE_OF: Final = tuple(bisect_left(FINE_BOUNDS_S, bound) for bound in BOUNDS_S)


def bucket_of(latency_s: float) -> int:
    """Return the index of the bucket that counts a latency."""
    return bisect_left(FINE_BOUNDS_S, latency_s)


def coarse(counts: Sequence[int]) -> list[int]:
    """Return the counts by the buckets of ``BOUNDS_S``; the last bucket is unbounded."""
    starts, ends = (0, *(fine + 1 for fine in _FINE_OF)), (*(fine + 1 for fine in _FINE_OF), BUCKETS)
    return [sum(counts[start:end]) for start, end in zip(starts, ends, strict=True)]


def percentile_s(counts: Sequence[int], share: float) -> float | None:
    """Return the latency in seconds that ``share`` (0 to 1) of the counted latencies do not exceed; None if empty.

    Interpolated linearly within a bucket, so at most 10% off an actual latency (below 1 µs: at most 1 µs off).
    Latencies above 1,000 s are returned as 1,000 s.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below = share * total, 0
    for bucket, number in enumerate(counts):
        if number and below + number >= wanted:
            if bucket >= len(FINE_BOUNDS_S):
                break
            low = FINE_BOUNDS_S[bucket - 1] if bucket else 0.0
            return low + (FINE_BOUNDS_S[bucket] - low) * max(0.0, wanted - below) / number
        below += number
    return FINE_BOUNDS_S[-1]
