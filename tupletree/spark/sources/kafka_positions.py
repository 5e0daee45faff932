"""Which partition of which topic has which number, and what the next batch of one is.

**Numbers.** Partition p of ``topics[t]`` has the number ``p * len(topics) + t``. That depends on nothing but the list
of topics, so a topic that gains partitions renumbers none, whenever and by whomever it is noticed. Where topics have
different numbers of partitions, some numbers stand for partitions that are not there (yet): they have no batches.

**Metadata** of a partition's batch, and what a split looks like: ``[topic, partition, start, end]``, the offsets from
``start`` to just before ``end``. The next batch begins at ``end``; where that is ``UNKNOWN``, at the end that the
partition has when it is first seen. The names are in there so that another list of topics under the same transactional
id is found out. Offsets are places in a log, not records: compaction and transactions leave gaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Start = Literal["earliest", "latest"]

UNKNOWN = -1
"""In the place of an offset: that of the end, as soon as it is known."""


class OutOfRangeError(Exception):
    """A position that is none of this log. The sentence begins with the name of the partition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The log of a partition: its first offset, and the one after the last that may be read."""

    first: int
    end: int

    @property
    def are_known(self) -> bool:
        """Whether the broker has said both in time: the client has no offset, and no error, for what it did not."""
        return self.first >= 0 and self.end >= 0


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"


def place_of(number: int, topics: Sequence[str]) -> Place:
    """Which partition a number stands for."""
    return Place(topics[number % len(topics)], number // len(topics))


def numbers(topics: Sequence[str], counts: Mapping[str, int]) -> int:
    """How many numbers there are for topics of so many partitions."""
    return max(((counts[topic] - 1) * len(topics) + index + 1 for index, topic in enumerate(topics)), default=0)


def position(place: Place, previous: Any, bounds: Bounds, start: Start) -> int:
    """Where the batch after ``previous`` begins, if nothing of it was deleted.

    Raises OutOfRangeError where ``previous`` is of another partition, or ends behind the end of the log.
    """
    if previous is None:
        return bounds.first if start == "earliest" else bounds.end
    topic, partition, _, end = previous
    if Place(topic, partition) != place:
        raise OutOfRangeError(
            f"{place}: the batch before was one of {Place(topic, partition)}; with other topics, or in another order, "
            f"it takes another transactional id"
        )
    if end == UNKNOWN:
        return bounds.end
    if end > bounds.end:
        raise OutOfRangeError(
            f"{place}: it was read up to offset {end:,} and ends at {bounds.end:,}; if the topic was deleted and "
            f"created again, it takes another transactional id"
        )
    return int(end)


def next_split(place: Place, begin: int, bounds: Bounds, limit: int) -> list[Any]:
    """The next batch of a partition: ``limit`` offsets at most, none if there are none yet."""
    return [place.topic, place.partition, begin, max(begin, min(begin + limit, bounds.end))]


def lost(begin: int, first: int) -> str:
    """What to say of offsets that are gone."""
    return f"offsets {begin:,} to {first - 1:,} were deleted, by retention or by hand, before they were read"


def is_empty(split: Sequence[Any]) -> bool:
    """Whether there is nothing in a split."""
    return bool(split[2] == split[3])


def divide(splits: Sequence[Sequence[Any]], tasks: int, least: int) -> list[list[Any]]:
    """The same offsets in up to ``tasks`` splits, none of them made smaller than ``least`` offsets."""
    total = sum(end - start for _, _, start, end in splits)
    size = max(least, -(-total // max(1, tasks)))
    divided = []
    for topic, partition, start, end in splits:
        parts = max(1, round((end - start) / size))
        cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
        divided += [[topic, partition, *cut] for cut in itertools.pairwise(cuts)]
    return divided
