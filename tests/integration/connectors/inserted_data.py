"""Changes of PostgreSQL whose data is a column, for formats."""

from __future__ import annotations

from collections.abc import Iterator

from tupletree.connectors.messages import LogRecord
from tupletree.connectors.postgres_changes import FETCHED, PostgresChanges


class InsertedData(PostgresChanges):
    """The column ``city`` of rows, as bytes in hexadecimal."""

    def changes(self, start: int, end: int | None, limit: int = FETCHED) -> Iterator[tuple[list[LogRecord], int]]:
        for records, behind in super().changes(start, end, limit):
            yield [_inserted(record) for record in records], behind


def _inserted(record: LogRecord) -> LogRecord:
    return LogRecord(bytes.fromhex(record.data.new["city"]), record.position, record.next, record.metadata)
