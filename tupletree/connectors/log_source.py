"""The contract of logs: systems whose messages have positions, from which they can be read again.

A log has *partitions*. The messages of a partition are in order, each with a *position*, a whole number. Positions
grow, and may have gaps. A range ``[start, end)`` of a partition has the same messages whenever it is read, until the
log deletes them. So whoever remembers positions resumes where it stood, and replays a batch exactly.

Two ways to read:

* *Ranges*, with ``partitions``, ``bounds`` and ``read``: transactional spouts and Spark, which decide on ranges first.
* *Following*, with a ``LogFollower``: spouts that emit each message when it arrives. ``RangeFollower`` (log_ranges.py)
  follows any log, range after range; a system whose client is made for it, as Kafka's, overrides ``follow``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException


class Bounds(NamedTuple):
    """The extent of a partition: its first position, and the position after its last message that may be read."""

    first: int
    end: int


class DeletedError(FailedException):
    """Messages were deleted before they were read. ``first``: the first position that is left."""

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


@dataclass(frozen=True, slots=True)
class Records:
    """Messages of a partition, in order. ``next``: the position after them, which may lie beyond the last one's."""

    partition: str
    records: Sequence[LogRecord]
    next: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The follower reads a partition from now on, from ``start``."""

    partition: str
    start: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """The follower reads a partition no longer: another task does, from the position processed last."""

    partition: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """A partition was deleted and created again, as with its topic. It is read from ``start``."""

    partition: str
    start: int


LogEvent = Records | Assigned | Revoked | Rewound


class LogSource(ABC):
    """A log, as one task uses it.

    An instance is made where the topology is built, and pickled: it opens its connections in ``open``. All methods are
    called on one thread at a time. A method that raises one of ``lost_on`` has lost the connection: ``close`` is
    called, and after a pause ``open``. FailedException means "not now", for example while a broker elects a leader.
    Any other exception ends the worker.

    Attributes:
        title: the name of the system, for messages to people.
        lost_on: the exceptions that mean a lost connection.
        metadata_fields: what the log knows of a message beside its data, as fields a spout can add to its rows.
        is_numbered: true if a partition keeps its index in ``partitions`` forever.
        keeps_positions: true if the log itself remembers what ``LogFollower.processed`` says, and a follower without
            positions resumes there; otherwise the spout keeps positions in ZooKeeper.
        units_per_message: about how many units of positions a message takes, such as bytes of a file.
        unit: what positions count, for people.
        lag_unit: what ``LogFollower.lag`` counts: "messages" or "bytes".
        partition_title: what partitions are, for people.
        begins_at_end: true if a log that was never read is read from its end, as it is when it is first seen.
        begins_at_first: true if a log that was never read is read from the first position of each partition.
        begins_at_positions: true if ``begin`` has a position for each partition, also for one that is new.
        are_complete: true if the partitions do not grow: a spout that has read them is at its end.
    """

    title: ClassVar[str] = "log"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    metadata_fields: ClassVar[Sequence[str]] = ()
    is_numbered: ClassVar[bool] = False
    keeps_positions: ClassVar[bool] = False
    units_per_message: ClassVar[int] = 1
    unit: ClassVar[str] = "positions"
    lag_unit: ClassVar[str] = "messages"
    partition_title: ClassVar[str] = "partitions"
    begins_at_end: ClassVar[bool] = False
    begins_at_first: ClassVar[bool] = True
    begins_at_positions: ClassVar[bool] = False
    are_complete: bool = False

    @abstractmethod
    def open(self) -> None:
        """Connect. If this raises, nothing may be left open: ``close`` is not called."""

    @abstractmethod
    def partitions(self) -> Sequence[str]:
        """Return the names of all partitions known now. More may appear; "" is a number without a partition (yet)."""

    @abstractmethod
    def bounds(self, partition: str) -> Bounds:
        """Return what a partition has now. Must not wait long. Raises FailedException if that is not known now."""

    def extents(self) -> Sequence[tuple[str, Bounds]]:
        """Return name and bounds of all partitions, sorted by name. Raises FailedException if that is not known now."""
        return [(name, self.bounds(name)) for name in sorted(self.partitions()) if name]

    def absence(self) -> str:
        """Return what is probably wrong if there are no partitions, for people; "" if that is nothing to speak of."""
        return ""

    def refresh(self, wait_s: float) -> None:  # noqa: B027, needed by few
        """Look at the log anew, for ``wait_s`` at most: for a log whose ``partitions`` and ``bounds`` remember."""

    def begin(self, partition: str, bounds: Bounds) -> int:
        """Return where a partition of a log that was never read begins. Raises FailedException if not known now."""
        return bounds.end if self.begins_at_end else bounds.first

    @abstractmethod
    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        """Yield the messages at positions from ``start`` to before ``end``, in order, in lists of some thousands.

        Returns when all of them were read. Raises DeletedError if some are gone, FailedException if the log gives none.
        """

    def limited(self, partition: str, start: int, end: int, limit: int) -> int:
        """Return where a range of about ``limit`` units from ``start`` ends: between messages, at most at ``end``.

        The unit is the log's: bytes of a file, offsets of a topic. Returns ``start`` if the next message is not
        complete. Raises FailedException if ``end`` is before ``start`` and must not be.
        """
        return min(end, start + limit)

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower | None:
        """Return the log's own reader of a task's share of the partitions, opened; None to read range after range.

        ``positions``: where the partitions of the mapping resume; others begin where ``begin`` says. The share is then
        the same for the same ``task_index`` and ``tasks``, even if the mapping is empty. None, only if
        ``keeps_positions``: the log shares its partitions out, and resumes where ``processed`` said.
        """
        return None

    def place(self, partition: str, position: int) -> str:
        """Return the name of a message's place, for people."""
        return f"{self.title}, partition {partition!r}, position {position:,}"

    @abstractmethod
    def close(self) -> None:
        """Disconnect. Never raises, also after ``lost_on``."""


class LogFollower(ABC):
    """Reads one task's share of a log as it grows. All methods are called on one thread, the one that made it.

    Attributes:
        processed_now: returns what the next ``processed`` would be told, for a follower that gives partitions away
            between two calls. Set after the follower is made.
    """

    processed_now: Callable[[], Mapping[str, int]] = dict

    @abstractmethod
    def poll(self, limit: int, wait_s: float) -> Sequence[LogEvent]:
        """Return what comes next: about ``limit`` messages at most, waiting at most ``wait_s`` for the first.

        A partition is Assigned before its first Records.
        """

    def processed(self, positions: Mapping[str, int]) -> None:  # noqa: B027, needed by few
        """Take note that all messages before these positions are processed, or belong to a committed checkpoint."""

    def lag(self) -> int | None:
        """Return how much of the share was not polled yet, in the log's ``lag_unit``; None if that is not known."""
        return None

    def ends(self) -> Mapping[str, float] | None:
        """Return where the partitions of the share end now, for event times (tupletree/_source_progress.py).

        Infinity for one of which that is not known now; None if that is known of none, or the share is not known.
        A position that has reached the end of its partition has nothing behind it that ``poll`` would return now.
        """
        return None

    def idle(self, wait_s: float) -> None:
        """Wait while nothing may be polled, and keep the share meanwhile, for example by heartbeats."""
        time.sleep(wait_s)

    @abstractmethod
    def close(self) -> None:
        """Give up the share. Never raises."""
