"""What the conformance suite asks of a log: a real one, and what a person sees in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tupletree.connectors.formats import Format
from tupletree.connectors.log_spout import LogSpout


class LogPlace(ABC):
    """A log of its own with ``PARTITIONS`` partitions. ``lag_per_message``: 0 if it depends on the message.

    ``can_be_away``: ``leave`` and ``come_back`` make the log unreachable and reachable.
    """

    PARTITIONS = 3
    metadata: Sequence[str] = ()
    knows_lag = True
    lag_unit = "messages"

    @abstractmethod
    def spout(self, format: Format, **options: Any) -> LogSpout:
        """A spout on the log, from its beginning. ``options``: of LogSpout."""

    @abstractmethod
    def put(self, partition: int, messages: Sequence[bytes]) -> None:
        """Append messages to a partition."""

    @abstractmethod
    def add_partition(self) -> int:
        """Add a partition, and return its number."""

    @abstractmethod
    def leave(self) -> None:
        """Make the log unreachable."""

    @abstractmethod
    def come_back(self) -> None:
        """Make the log reachable again."""

    def is_processed(self) -> bool:
        """True if all messages are processed, as far as the log knows. A log that keeps no positions knows nothing."""
        return True

    def close(self) -> None:  # noqa: B027
        """End what the place has started."""
