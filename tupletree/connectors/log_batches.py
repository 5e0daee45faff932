"""Batches of a numbered log: the range of a partition that follows the range before.

A **range** is ``[partition, start, end]``: the messages at positions from ``start`` to before ``end``. It is the
metadata of a partition's batch, and the split of a pipeline. The next batch begins at ``end``; if ``end`` is
``UNKNOWN``, it begins at the end of the partition when that is first seen. The name makes it possible to detect that a
number stands for another partition under the same transactional id.

Pipelines over Kafka once stored ``[topic, partition, start, end]``, which is understood as well.
"""

from __future__ import annotations  # pure

import itertools
from collections.abc import Sequence
from typing import Any, Final

UNKNOWN: Final = -1
"""Placeholder for an end that is not known yet."""


class OutOfRangeError(Exception):
    """A position outside the log of its partition. The message begins with the name of the partition."""


def parts_of(stored: Sequence[Any]) -> tuple[str, int, int]:
    """Return the partition, the start and the end of a range."""
    *name, start, end = stored
    return "/".join(map(str, name)), start, end


def is_empty(stored: Sequence[Any]) -> bool:
    """True if a range has no positions."""
    return bool(stored[-2] == stored[-1])


def position(name: str, previous: Sequence[Any], log_end: int) -> int:
    """Return where the batch after ``previous`` begins. Messages from there on can have been deleted.

    ``log_end``: the position after the last message of the partition.

    Raises OutOfRangeError if ``previous`` is of another partition, or ends after the end of the log.
    """
    before, _, end = parts_of(previous)
    if before != name:
        raise OutOfRangeError(
            f"partition {name!r}: the previous batch was of partition {before!r}; with other partitions, or in another "
            f"order, the topology needs another transactional id"
        )
    if end == UNKNOWN:
        return log_end
    if end > log_end:
        raise OutOfRangeError(
            f"partition {name!r}: the topology has read up to position {end:,}, but the log ends at {log_end:,}; if "
            f"the log was deleted and created again, the topology needs another transactional id"
        )
    return end


def lost(start: int, first: int) -> str:
    """Return the message for deleted positions."""
    return f"positions {start:,} to {first - 1:,} were deleted, by retention or by hand, before they were read"


def divide(ranges: Sequence[Sequence[Any]], tasks: int, least: int) -> list[list[Any]]:
    """Divide ranges for about ``tasks`` tasks. The parts of a divided range have at least ``least`` positions each."""
    total = sum(end - start for *_, start, end in ranges)
    size = max(least, -(-total // max(1, tasks)))
    divided = []
    for stored in ranges:
        name, start, end = parts_of(stored)
        parts = max(1, min(round((end - start) / size), (end - start) // least))
        cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
        divided += [[name, *cut] for cut in itertools.pairwise(cuts)]
    return divided
