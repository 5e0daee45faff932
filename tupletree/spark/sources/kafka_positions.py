"""Numbering of the partitions of topics, and the next batch of a partition.

**Numbers.** Partition p of ``topics[t]`` has the number ``p * len(topics) + t``. The number depends only on the list of
topics, so new partitions of a topic renumber no others, whenever and by whomever they are noticed. If topics have
different numbers of partitions, some numbers stand for partitions that do not exist (yet). They have no batches.

**Metadata** of a partition's batch, which is also a split: ``[topic, partition, start, end]``, the offsets from
``start`` to just before ``end``. The next batch begins at ``end``; if ``end`` is ``UNKNOWN``, the next batch begins at
the end of the partition when it is first seen. The names make it possible to detect another list of topics under the
same transactional id. Offsets are positions in a log, not records: compaction and transactions leave gaps.
"""

from __future__ import annotations  # pure

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Start = Literal["earliest", "latest"]

UNKNOWN = -1
"""Placeholder for the end offset of a partition that is not known yet."""


class OutOfRangeError(Exception):
    """A position outside the log of its partition. The message begins with the name of the partition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The log of a partition: its first offset, and the offset after the last readable one."""

    first: int
    end: int

    @property
    def are_known(self) -> bool:
        """True if the broker has reported both offsets in time. Otherwise the client has neither offset nor error."""
        return self.first >= 0 and self.end >= 0


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"


def place_of(number: int, topics: Sequence[str]) -> Place:
    """Return the partition that a number stands for."""
    return Place(topics[number % len(topics)], number // len(topics))


def numbers(topics: Sequence[str], counts: Mapping[str, int]) -> int:
    """Return how many partition numbers are needed. ``counts``: topic -> number of partitions."""
    return max(((counts[topic] - 1) * len(topics) + index + 1 for index, topic in enumerate(topics)), default=0)


def position(place: Place, previous: Any, bounds: Bounds, start: Start) -> int:
    """Return the offset at which the batch after ``previous`` begins. Records from there on can have been deleted.

    Raises OutOfRangeError if ``previous`` is of another partition, or ends after the end of the log.
    """
    if previous is None:
        return bounds.first if start == "earliest" else bounds.end
    topic, partition, _, end = previous
    if Place(topic, partition) != place:
        raise OutOfRangeError(
            f"{place}: the previous batch was of {Place(topic, partition)}; with other topics, or in another order, "
            f"the pipeline needs another transactional id"
        )
    if end == UNKNOWN:
        return bounds.end
    if end > bounds.end:
        raise OutOfRangeError(
            f"{place}: the pipeline has read up to offset {end:,}, but the log ends at {bounds.end:,}; if the topic "
            f"was deleted and created again, the pipeline needs another transactional id"
        )
    return int(end)


def next_split(place: Place, begin: int, bounds: Bounds, limit: int) -> list[Any]:
    """Return the next batch of a partition: at most ``limit`` offsets, or none if there are none yet."""
    return [place.topic, place.partition, begin, max(begin, min(begin + limit, bounds.end))]


def lost(begin: int, first: int) -> str:
    """Return the message for deleted offsets."""
    return f"offsets {begin:,} to {first - 1:,} were deleted, by retention or by hand, before they were read"


def is_empty(split: Sequence[Any]) -> bool:
    """True if a split is empty."""
    return bool(split[2] == split[3])


def divide(splits: Sequence[Sequence[Any]], tasks: int, least: int) -> list[list[Any]]:
    """Divide splits for about ``tasks`` tasks. The parts of a divided split have at least ``least`` offsets each."""
    total = sum(end - start for _, _, start, end in splits)
    size = max(least, -(-total // max(1, tasks)))
    divided = []
    for topic, partition, start, end in splits:
        parts = max(1, min(round((end - start) / size), (end - start) // least))
        cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
        divided += [[topic, partition, *cut] for cut in itertools.pairwise(cuts)]
    return divided
