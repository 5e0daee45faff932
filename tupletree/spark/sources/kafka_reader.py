"""Reader of a range of offsets, run in Spark's Python workers.

A range is read when the reader has passed its end, not when a number of records has arrived: compaction, aborted
transactions and transaction markers leave offsets without records. The reader has passed the end at the first record
beyond it, or when the broker reports that the log ends there or later.

Any error reported by the client fails the batch, except temporary errors. For example, the client reports a block that
it cannot decode and then skips the block, whose records must not be lost silently.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sources.kafka_client import kafka
from tupletree.spark.sources.kafka_positions import Place, lost

RECORDS_PER_RECORD_BATCH = 10_000
BYTES_PER_RECORD_BATCH = 64 << 20
"""Approximate size of keys and values. A column cannot hold more than 2 GB."""

POLL_S = 0.1

ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def read(
    config: Mapping[str, Any], split: Sequence[Any], timeout_s: float, *, is_opaque: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split. ``timeout_s``: maximum time to wait for a broker that sends nothing.

    Raises UnavailableError after the timeout. If offsets were deleted, raises UsageError for a source with fixed
    batches, and UnavailableError for an opaque source, whose next attempt leaves these offsets out.
    """
    client = kafka()
    topic, partition, start, end = split
    # Prefetch no more than the range, as far as the client can be configured.
    consumer = client.Consumer({**config, "queued.min.messages": max(1, min(100_000, end - start))})
    try:
        consumer.assign([client.TopicPartition(topic, partition, start)])
        yield from _Range(client, consumer, split, config["bootstrap.servers"], timeout_s, is_opaque).batches()
    finally:
        consumer.close()


class _Range:
    """A range that is being read. ``_position``: every record before it has been read, or does not exist."""

    def __init__(
        self, client: Any, consumer: Any, split: Sequence[Any], where: str, timeout_s: float, is_opaque: bool
    ) -> None:
        topic, partition, self._start, self._end = split
        self._place = Place(topic, partition)
        self._client = client
        self._consumer = consumer
        self._where = where
        self._timeout_s = timeout_s
        self._is_opaque = is_opaque
        self._position = self._start
        self._bytes = 0  # of the records that were not yielded yet
        self._problem = "no broker has answered"
        codes = client.KafkaError
        self._passing = {  # errors after which the client continues where it was
            codes._TRANSPORT,
            codes._ALL_BROKERS_DOWN,
            codes._TIMED_OUT,
            codes._RESOLVE,
            codes.LEADER_NOT_AVAILABLE,
            codes.NOT_LEADER_FOR_PARTITION,
            codes.UNKNOWN_TOPIC_OR_PART,
            codes.GROUP_AUTHORIZATION_FAILED,  # no group is used
        }

    def batches(self) -> Iterator[pa.RecordBatch]:
        records: list[Any] = []
        deadline_s = time.monotonic() + self._timeout_s
        while self._position < self._end:
            before = self._position
            for message in self._messages():
                self._consume(message, records)
                if len(records) >= RECORDS_PER_RECORD_BATCH or self._bytes >= BYTES_PER_RECORD_BATCH:
                    yield self._record_batch(records)
                    records, self._bytes = [], 0
            if self._position > before:
                deadline_s = time.monotonic() + self._timeout_s
            elif time.monotonic() > deadline_s:
                raise self._unavailable(f"no data arrived for {self._timeout_s:g} s: {self._problem}")
        if records:
            yield self._record_batch(records)

    def _messages(self) -> Sequence[Any]:
        """Return the buffered messages, or wait for a single one. A wait for many would last until all are there."""
        there = self._consumer.consume(RECORDS_PER_RECORD_BATCH, timeout=0)
        found: Sequence[Any] = there or self._consumer.consume(1, timeout=POLL_S)
        return found

    def _consume(self, message: Any, records: list[Any]) -> None:
        error = message.error()
        if error is None:
            self._position = message.offset() + 1
            if message.offset() < self._end:
                records.append(message)
                self._bytes += len(message.key() or b"") + len(message.value() or b"")
        elif error.code() == self._client.KafkaError._PARTITION_EOF:
            self._position = max(self._position, message.offset())
            self._problem = f"the log ends at offset {message.offset():,}"
        elif error.code() in self._passing:
            self._problem = error.str()
        elif error.code() in {
            self._client.KafkaError._AUTO_OFFSET_RESET,
            self._client.KafkaError.OFFSET_OUT_OF_RANGE,
        }:
            raise self._out_of_range(error)
        else:
            raise self._unavailable(error.str())

    def _out_of_range(self, error: Any) -> Exception:
        at = self._client.TopicPartition(self._place.topic, self._place.partition)
        try:
            first, end = self._consumer.get_watermark_offsets(at, timeout=self._timeout_s)
        except self._client.KafkaException:
            return self._unavailable(error.str())
        if first <= self._position:
            return self._unavailable(f"{error.str()}; the log now ends at offset {end:,}")
        what = self._sentence(lost(self._position, min(first, self._end)))
        return UnavailableError(what) if self._is_opaque else UsageError(what)

    def _unavailable(self, what: str) -> UnavailableError:
        return UnavailableError(self._sentence(f"at offset {self._position:,}: {what}"))

    def _sentence(self, what: str) -> str:
        wanted = f"while reading offsets {self._start:,} to {self._end - 1:,}"
        return f"{self._place} of the brokers {self._where}, {wanted}: {what}"

    def _record_batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        times = [None if kind == self._client.TIMESTAMP_NOT_AVAILABLE else time_ms for kind, time_ms in _times(records)]
        columns = [
            pa.array([record.key() for record in records], pa.binary()),
            pa.array([record.value() for record in records], pa.binary()),
            pa.repeat(pa.scalar(self._place.topic), len(records)),
            pa.repeat(pa.scalar(self._place.partition, pa.int32()), len(records)),
            pa.array([record.offset() for record in records], pa.int64()),
            pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _times(records: Sequence[Any]) -> Iterator[tuple[int, int]]:
    return (record.timestamp() for record in records)
