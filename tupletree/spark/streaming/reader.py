"""Reader of an exported stream, run by Spark: planning in one Python process per query, reading in the executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tupletree.errors import UsageError
from tupletree.spark.streaming import offers, rows
from tupletree.spark.streaming.directory import MICRO_BATCHES, ROWS, SEGMENTS, ExchangeDirectory
from tupletree.spark.streaming.offers import Offset, Segments, Transactions

BYTES_PER_PARTITION = 8 << 20
"""Approximate number of bytes that a Spark task reads. Small files share a task."""

PRUNE = "prune"
MAX_BYTES = "maxBytesPerTrigger"
TXID_COLUMN = "txidColumn"


class ExportReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads an exchange directory that a topology exports to. Offsets and offers are described in offers.py.

    Options: ``prune`` ("true": delete the files that this query has processed; for a stream with a single query),
    ``maxBytesPerTrigger``, ``txidColumn`` (the name of a column for the transaction id).
    """

    def __init__(self, directory: str, schema: StructType, options: Mapping[str, str]) -> None:
        self._directory = ExchangeDirectory(directory)
        self._schema = schema.json()
        self._prunes = _flag(options, PRUNE)
        self._max_bytes = _bytes(options)
        self._txid_column = options.get(TXID_COLUMN)
        self._target: Offset | None = None  # with the trigger availableNow: the last offset to read

    def initialOffset(self) -> Offset:
        offer = self._offer()
        return {} if offer is None else offer.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._max_bytes is None else ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        offer = self._offer()
        if offer is None:
            return start
        latest = offer.latest(start or offer.initial(), max_bytes)
        if self._target is not None:
            bounds = {key: max(self._target.get(key, 0), start.get(key, 0)) for key in latest}
            return {key: min(number, bounds[key]) for key, number in latest.items()}
        return latest

    def prepareForTriggerAvailableNow(self) -> None:
        offer = self._offer()
        self._target = {} if offer is None else offer.latest(offer.initial(), None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if not end:  # nothing was offered; rows exported since then belong to the next micro-batch
            return []
        offer = self._offer()
        if offer is None:
            raise UsageError(f"the checkpoint says {end}, but nothing was exported to {self._directory.path}")
        chunks = offer.chunks(start or offer.initial(), end)
        return [InputPartition(group) for group in offers.packed(chunks, BYTES_PER_PARTITION)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = rows.arrow_schema(self._schema)
        for chunk in map(offers.Chunk._make, partition.value):
            for batch in rows.read_batches(str(self._directory.path / ROWS / chunk.name), schema):
                yield self._with_txid(batch, chunk.txid)

    def commit(self, end: Offset) -> None:
        if not self._prunes or not end:
            return

        def names() -> Iterator[str]:
            for name in self._directory.listing(ROWS):
                place = offers.position(name)
                if place is not None and place[1] <= end.get(place[0], 0):
                    yield f"{ROWS}/{name}"

        self._directory.remove(end, names)

    def _with_txid(self, batch: pa.RecordBatch, txid: int | None) -> pa.RecordBatch:
        if self._txid_column is None or txid is None:
            return batch
        position = batch.schema.get_field_index(self._txid_column)
        column = pa.repeat(pa.scalar(txid, pa.int64()), len(batch))
        return batch.set_column(position, batch.schema.field(position), column)

    def _offer(self) -> Transactions | Segments | None:
        """Return the current offer; None until the topology has written something."""
        about = self._directory.about()
        if about is None:
            return None
        if about.kind == MICRO_BATCHES:
            raise UsageError(f"{self._directory.path} cannot be read: a topology ingests its rows, and exports none")
        seen = self._directory.listing(ROWS)
        listing, removed = self._directory.listing(ROWS), self._directory.removed()
        if about.kind == SEGMENTS:
            return Segments(seen, listing, removed)
        return Transactions(seen, listing, removed, is_opaque=about.is_opaque)


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise UsageError(f"option '{name}' is {value!r}; true or false was expected")
    return value == "true"


def _bytes(options: Mapping[str, str]) -> int | None:
    value: Any = options.get(MAX_BYTES)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"option '{MAX_BYTES}' is {value!r}; a number of bytes of at least 1 was expected")
    return int(value)
