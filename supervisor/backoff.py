"""Delays before retries.

Restarting a worker: the first time at once, because most crashes are isolated; then after 1 s, doubling to 30 s,
because a worker that keeps crashing costs its machine more than it gives its topology.

    deaths in a row    1   2   3   4   5    6    7 …
    wait in seconds    0   1   2   4   8   16   30 …

Localizing a bundle: 1 s, 2 s, … 30 s from the first failure on, because an immediate retry would fail the same way.
"""

from __future__ import annotations  # pure

from tupletree.backoff import Backoff

_BACKOFF = Backoff(first_s=1.0, factor=2.0, max_s=30.0)


def restart_delay_s(deaths: int) -> float:
    """Return the wait before the next launch after ``deaths`` quick deaths in a row (1 or more)."""
    return 0.0 if deaths <= 1 else retry_delay_s(deaths - 1)


def retry_delay_s(failures: int) -> float:
    """Return the wait after ``failures`` failed attempts in a row (1 or more)."""
    return _BACKOFF.pause_s(max(failures, 1))
