"""The logs that the conformance suite runs against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_place import KafkaGroupPlace, KafkaPlace
from log_place import LogPlace
from postgres_log_place import PostgresLogPlace

from tupletree.connectors.formats import Format
from tupletree.connectors.log_spout import LogSpout


class FilesPlace(LogPlace):
    """A directory of text files."""

    metadata = ("file", "position")
    lag_unit = "bytes"

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


LOGS: dict[str, Any] = {
    "files": FilesPlace,
    "kafka": KafkaPlace,
    "kafka-group": KafkaGroupPlace,
    "postgres_changes": PostgresLogPlace,
}
"""By name, a class that is called with a directory for the test."""
