"""What stands for Spark where a test needs no Spark: it does to an exchange directory what a query does."""

from __future__ import annotations

import uuid
from pathlib import Path

from tupletree.spark.streaming import rows
from tupletree.spark.streaming.ddl import parse_schema
from tupletree.spark.streaming.directory import PUBLISHED, ROWS, ExchangeDirectory
from tupletree.spark.streaming.reader import ExportReader
from tupletree.spark.streaming.writer import IngestWriter, Written


class Reading:
    """A query that reads: each ``more`` is a micro-batch. ``start``: the offset of its checkpoint."""

    def __init__(self, directory, schema, start=None, **options):
        self.reader = ExportReader(str(directory), parse_schema(schema), options)
        self.offset = self.reader.initialOffset() if start is None else start

    def more(self):
        """The rows of the next micro-batch."""
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        read = self.between(self.offset, end)
        self.reader.commit(end)
        self.offset = end
        return read

    def between(self, start, end):
        partitions = self.reader.partitions(start, end)
        return [
            tuple(row.values()) for part in partitions for batch in self.reader.read(part) for row in batch.to_pylist()
        ]


class Feeding:
    """A query that writes micro-batches of given rows, in a file for each list."""

    def __init__(self, directory, schema, query=None):
        self.query = query or str(uuid.uuid4())
        self.directory = ExchangeDirectory(directory)
        self.schema = rows.arrow_schema(parse_schema(schema).json())
        self.writer = IngestWriter(str(directory), None, parse_schema(schema))

    def write(self, number, *parts):
        """What the tasks of a micro-batch do; return what they tell the driver."""
        self.directory.make_folders()
        messages = []
        for part in parts:
            name = f"{self.query}.{number}.{uuid.uuid4().hex}.arrow"
            batches = rows.table(part, self.schema).to_batches()
            self.directory.publish(f"{ROWS}/{name}", lambda file, it=batches: rows.write_batches(file, it, self.schema))
            messages.append(Written(str(self.directory.path), self.query, name))
        return messages

    def feed(self, number, *parts):
        """Write and commit a micro-batch."""
        self.writer.commit(self.write(number, *parts), number)


def files(directory):
    """What rows and manifests are there."""
    return sorted(path.name for folder in (ROWS, PUBLISHED) for path in Path(directory, folder).glob("*"))
