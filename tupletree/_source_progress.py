"""The progress of a source's task in event time, as its spout and its executor see it (tupletree.streams).

    spout -- partitions, ends, which one is being emitted --> SourceProgress <-- event times -- the spout's chain
                                                                   |
    executor <-- what to send, a few times per second -------------+

The chain (tupletree/_chained.py) makes it in ``setup`` and puts it into the task's context, if others wait for the
progress. All methods are called on the thread of the spout's executor.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

REPORT_EVERY_S: Final = 0.2
"""The time between two reports of an executor to the tasks that wait for watermarks."""


class SourceProgress(Protocol):
    """Progress of one task in event time. Positions are whole numbers, which grow within a partition."""

    def follow(
        self,
        positions: Callable[[], Mapping[str, int]],
        has_read_all: Callable[[], bool],
        *,
        is_complete: bool,
        are_moved: bool = False,
    ) -> None:
        """Begin to hear of partitions. A spout that does not call this has one partition, which has no end.

        ``positions``: returns the position behind what was emitted of each assigned partition. ``has_read_all``:
        returns true once nothing new comes any more. ``is_complete``: the partitions do not grow. ``are_moved``: a
        partition that is revoked may be assigned to another task, and to another one after each start.
        """

    def assign(self, partition: str) -> None:
        """Record that a partition is read from now on."""

    def revoke(self, partition: str) -> None:
        """Record that a partition is read no longer."""

    def restart(self) -> None:
        """Forget all partitions: the spout goes back to earlier positions."""

    def select(self, partition: str) -> None:
        """Record that the rows emitted from now on are of this partition."""

    def set_ends(self, ends: Mapping[str, float] | None, now_ms: int) -> None:
        """Record where the partitions of this task ended after all was read that is emitted by now.

        Infinity for one of which that is not known; None if it is known of none. A partition that is missing is gone;
        one that is not assigned yet is there, and will be.
        """

    def report(self) -> Sequence[int]:
        """Return what to send to the tasks that wait for watermarks, in order."""

    def end(self) -> None:
        """Record that no row comes any more."""
