"""The results of a query in the form in which a program's results and those of ``reference`` are equal."""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from bench.nexmark.reference import REFERENCES

TABLES: Final = frozenset({"q4", "q6"})
"""Queries whose results are updates of a table."""

SUMS: Final = frozenset({"q12"})
"""Queries whose results are counts by key in processing time: what they add up to does not depend on the time."""

KEYED: Final = TABLES | SUMS
"""Queries whose results are pairs of key and value."""

WINDOWS: Final = frozenset({"q5", "q7", "q8", "q11"})
"""Queries whose results are of windows in event time, and begin with the start of the window."""


def comparable(query: str, results: Iterable[Any], last_ms: int) -> Counter[Any]:
    """Return the results, each with the number of its occurrences.

    Of a table, these are the newest updates; of windows in processing time, their sums. Windows that begin after
    ``last_ms`` are left out: they are open, or of events that were added to close others.
    """
    if query in TABLES:
        return Counter(dict(results).items())
    if query in SUMS:
        sums: Counter[Any] = Counter()
        for key, count in results:
            sums[key] += count
        return Counter(sums.items())
    if query in WINDOWS:
        results = (one for one in results if one[0] <= last_ms)
    return Counter(results)


def expected(query: str, events: Iterable[Any], last_ms: int) -> Counter[Any]:
    """Return the results that the program of a query must have."""
    return comparable(query, REFERENCES[query](list(events)), last_ms)
