"""Assignment of Spark's micro-batches to transactions of the topology that ingests them.

The metadata of a transaction is ``{"before": {query: number}, "batches": [[query, number], …]}``. ``batches`` lists its
micro-batches. ``before`` gives, per query, the number up to which all micro-batches belong to earlier transactions. The
metadata is stored durably before anything is emitted (coordinator.py), so each micro-batch belongs to one transaction
forever: the next transaction takes only later micro-batches.

Micro-batches of a query are published in ascending order, one after the other. Numbers can be missing, since an empty
micro-batch is not published. A listing made while two micro-batches were being published can show the later one alone.
So a decision needs two listings: ``seen`` gives the highest number that counts, and ``listing``, which must be made
after ``seen``, gives the micro-batches up to that number (see offers.py).
"""

from __future__ import annotations  # pure

import re
from collections.abc import Iterable, Mapping
from typing import Any

Numbers = Mapping[str, int]
"""Query -> number of a micro-batch. Stands for all micro-batches up to that number."""

_MANIFEST = re.compile(r"(.+)\.(\d+)\.json")


def manifest_file(query: str, number: int) -> str:
    """Return the name of the file that lists the contents of a micro-batch."""
    return f"{query}.{number}.json"


def batches_of(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the published micro-batches per query, ascending."""
    found: dict[str, list[int]] = {}
    for match in filter(None, map(_MANIFEST.fullmatch, names)):
        found.setdefault(match[1], []).append(int(match[2]))
    return {query: sorted(found[query]) for query in sorted(found)}


def assigned(metadata: Any) -> dict[str, int]:
    """Return, per query, the number up to which all micro-batches belong to this transaction or an earlier one."""
    if metadata is None:
        return {}
    numbers = dict(metadata["before"])
    for query, number in metadata["batches"]:
        numbers[query] = max(number, numbers.get(query, number))
    return numbers


def taken(previous: Any, removed: Numbers) -> dict[str, int]:
    """Return, per query, the number up to which no micro-batch may be taken again.

    ``previous``: metadata of the previous transaction.
    """
    numbers = dict(removed)
    for query, number in assigned(previous).items():
        numbers[query] = max(number, numbers.get(query, number))
    return numbers


def open_batches(seen: Iterable[str], listing: Iterable[str], below: Numbers, last: str = "") -> list[list[Any]]:
    """Return the micro-batches above ``below``, in order per query, one per query in turn, starting after ``last``."""
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
    """Return the metadata of the next transaction, of at most ``limit`` micro-batches. None if there are none."""
    before = taken(previous, removed)
    last = previous["batches"][-1][0] if previous else ""
    batches = open_batches(seen, listing, before, last)[:limit]
    return {"before": before, "batches": batches} if batches else None
