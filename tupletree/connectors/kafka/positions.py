"""Names and numbers of the partitions of topics.

Partition p of ``topics[t]`` has the number ``p * len(topics) + t``. The number depends only on the list of topics, so
new partitions of a topic renumber no others, whenever and by whomever they are noticed. If topics have different
numbers of partitions, some numbers stand for partitions that do not exist (yet).

Offsets are positions in a log, not messages: compaction and transactions leave gaps.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"

    @property
    def name(self) -> str:
        """The name of the partition in a LogSource: ``"topic/number"``. Topics have no slashes."""
        return f"{self.topic}/{self.partition}"


def place_named(name: str) -> Place:
    """Return the partition of a name."""
    topic, _, number = name.rpartition("/")
    return Place(topic, int(number))


def place_of(number: int, topics: Sequence[str]) -> Place:
    """Return the partition that a number stands for."""
    return Place(topics[number % len(topics)], number // len(topics))


def numbers(topics: Sequence[str], counts: Mapping[str, int]) -> int:
    """Return how many partition numbers are needed. ``counts``: topic -> number of partitions."""
    return max(((counts[topic] - 1) * len(topics) + index + 1 for index, topic in enumerate(topics)), default=0)


def names(topics: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the names of the partitions by number, "" for numbers without a partition."""
    places = (place_of(number, topics) for number in range(numbers(topics, counts)))
    return [place.name if place.partition < counts[place.topic] else "" for place in places]
