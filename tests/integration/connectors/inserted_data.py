"""Changes of PostgreSQL whose data is a column, for formats."""

from __future__ import annotations

from collections.abc import Iterator

from tupletree.connectors.log_source import LogRecord
from tupletree.connectors.postgres_changes import FETCHED, PostgresChanges


class InsertedData(PostgresChanges):
    """The column ``city`` of rows, as bytes in hexadecimal."""

    def changes(self, start: int, end: int | None, limit: int = FETCHED) -> Iterator[tuple[list[LogRecord], int]]:
        for records, behind in super().changes(start, end, limit):
            yield [record._replace(data=bytes.fromhex(record.data.new["city"])) for record in records], behind
