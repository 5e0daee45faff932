"""The format ``tupletree`` for Spark Structured Streaming.

    spark.dataSource.register(TupletreeDataSource)

    counts = spark.readStream.format("tupletree").option("topology", "word-count").option("stream", "counts").load()
    frame.writeStream.format("tupletree").option("topology", "scores").option("checkpointLocation", path).start()

Options for reading and writing: ``topology`` and ``stream``, with ``nimbus`` if the configuration has no address of a
nimbus; or ``path``, the exchange directory, which needs no cluster. The options for reading are in reader.py.

Spark's drivers and executors need this package. A reading query asks nimbus when it starts, a writing query at each
micro-batch. A query can be killed at any point and restarted with its checkpoint: it reads each transaction once, and
feeds each micro-batch to the topology once.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import LongType, StructField, StructType

from tupletree.errors import UsageError
from tupletree.spark.streaming import lookup
from tupletree.spark.streaming.endpoint import EXPORT, INGEST
from tupletree.spark.streaming.reader import TXID_COLUMN, ExportReader
from tupletree.spark.streaming.writer import IngestWriter


class TupletreeDataSource(DataSource):
    """Reads the rows that a topology exports; writes the rows that a topology ingests."""

    _found: lookup.Place | None = None  # pickled with this object, so that one query reads one directory

    @classmethod
    def name(cls) -> str:
        return "tupletree"

    def schema(self) -> StructType:
        place = self._export()
        if place.columns is None:
            raise UsageError(
                f"no topology has exported to {place.directory} yet: start the topology, or name the columns with "
                ".schema(…)"
            )
        columns = list(place.columns.fields)
        if TXID_COLUMN in self.options:
            columns.append(StructField(self.options[TXID_COLUMN], LongType()))
        return StructType(columns)

    def streamReader(self, schema: StructType) -> ExportReader:
        place = self._export()
        if place.columns is not None:
            known = [*place.columns.fieldNames(), self.options.get(TXID_COLUMN)]
            for name in schema.fieldNames():
                if name not in known:
                    raise UsageError(
                        f"the stream has no column '{name}'; its columns are {', '.join(place.columns.names)}"
                    )
        return ExportReader(place.directory, schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> IngestWriter:
        if overwrite:
            raise UsageError("a topology cannot take rows back: the output mode must be append or update, not complete")
        place = lookup.find(self.options, INGEST)
        return IngestWriter(place.directory, place.columns, schema)

    def _export(self) -> lookup.Place:
        if self._found is None:
            self._found = lookup.find(self.options, EXPORT)
        return self._found
