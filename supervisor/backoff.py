"""How long to wait before trying again.

Restarting a worker: the first time at once, because most crashes are single ones; then 1 s, doubling to 30 s, because
a worker that keeps dying costs its machine more than it does for its topology.

    deaths in a row    1   2   3   4   5    6    7 …
    wait in seconds    0   1   2   4   8   16   30 …

Localizing a bundle: from the first failure on 1 s, 2 s, … 30 s, because trying again at once hits the same wall.
"""

from __future__ import annotations

FIRST_S = 1.0
MAX_S = 30.0


def restart_delay_s(deaths: int) -> float:
    """The wait before the next launch after ``deaths`` quick deaths in a row (1 or more)."""
    return 0.0 if deaths <= 1 else retry_delay_s(deaths - 1)


def retry_delay_s(failures: int) -> float:
    """The wait after ``failures`` failed attempts in a row (1 or more)."""
    exponent = min(max(failures, 1) - 1, 16)
    return min(FIRST_S * 2.0**exponent, MAX_S)
