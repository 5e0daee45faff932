"""What the conformance suite asks of a log: a real one, and what a person sees in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
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

    def close(self) -> None:  # noqa: B027
        """End what the place has started."""


class FilesPlace(LogPlace):
    """A directory of text files."""

    metadata = ("file", "position")

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "log"
        self.directory.mkdir()
        self.partitions = 0
        for _ in range(self.PARTITIONS):
            self.add_partition()

    def spout(self, format: Format, **options: Any) -> LogSpout:
        from tupletree.connectors.files import FileSpout

        return FileSpout(self.directory, format, **options)

    def put(self, partition: int, messages: Sequence[bytes]) -> None:
        with open(self.directory / f"part-{partition}", "ab") as file:
            file.write(b"".join([message + b"\n" for message in messages]))

    def add_partition(self) -> int:
        (self.directory / f"part-{self.partitions}").touch()
        self.partitions += 1
        return self.partitions - 1

    def leave(self) -> None:
        self.directory.rename(self.directory.with_name("away"))

    def come_back(self) -> None:
        self.directory.with_name("away").rename(self.directory)


LOGS: dict[str, Any] = {"files": FilesPlace}
"""By name, a class that is called with a directory for the test."""
