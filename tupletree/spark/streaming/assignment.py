"""Which micro-batches of Spark make up a transaction of the topology that they feed.

The metadata of a transaction is ``{"before": {query: number}, "batches": [[query, number], …]}``: its micro-batches,
and up to which one of each query all belong to earlier transactions. It is written down durably before anything is
emitted (coordinator.py), so each micro-batch belongs to one transaction for ever: the next is made of what lies behind.

Micro-batches of a query are published in ascending order, one after the other; numbers may be left out, since an empty
one is not published. A listing that was made while two were published may show the later one alone. So ``published``
must be of a listing made after another one, ``seen``, showed the highest number in it that counts (see offers.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Numbers = Mapping[str, int]
"""A number of a micro-batch for each query: all up to it."""

_MANIFEST = re.compile(r"(.+)\.(\d+)\.json")


def manifest_file(query: str, number: int) -> str:
    """The name of the file that says what a micro-batch consists of."""
    return f"{query}.{number}.json"


def batches_of(names: Iterable[str]) -> dict[str, list[int]]:
    """The micro-batches of each query that are published, ascending."""
    found: dict[str, list[int]] = {}
    for match in filter(None, map(_MANIFEST.fullmatch, names)):
        found.setdefault(match[1], []).append(int(match[2]))
    return {query: sorted(found[query]) for query in sorted(found)}


def assigned(metadata: Any) -> dict[str, int]:
    """Up to which micro-batch of each query all belong to a transaction up to this one."""
    if metadata is None:
        return {}
    numbers = dict(metadata["before"])
    for query, number in metadata["batches"]:
        numbers[query] = max(number, numbers.get(query, number))
    return numbers


def taken(previous: Any, removed: Numbers) -> dict[str, int]:
    """Up to which micro-batch of each query none is to be taken any more. ``previous``: of the transaction before."""
    numbers = dict(removed)
    for query, number in assigned(previous).items():
        numbers[query] = max(number, numbers.get(query, number))
    return numbers


def open_batches(seen: Iterable[str], listing: Iterable[str], below: Numbers, last: str = "") -> list[list[Any]]:
    """The micro-batches above ``below``: of each query in its order, and one of each query in turn, after ``last``."""
    newest = {query: numbers[-1] for query, numbers in batches_of(seen).items()}
    queues = [
        [[query, number] for number in numbers if below.get(query, -1) < number <= newest.get(query, -1)]
        for query, numbers in sorted(batches_of(listing).items(), key=lambda item: (item[0] <= last, item[0]))
    ]
    turns = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(turns) for queue in queues if turn < len(queue)]


def next_metadata(
    seen: Iterable[str], listing: Iterable[str], previous: Any, removed: Numbers, limit: int
) -> dict[str, Any] | None:
    """The metadata of the next transaction, of at most ``limit`` micro-batches; None if there is none to take."""
    before = taken(previous, removed)
    last = previous["batches"][-1][0] if previous else ""
    batches = open_batches(seen, listing, before, last)[:limit]
    return {"before": before, "batches": batches} if batches else None
