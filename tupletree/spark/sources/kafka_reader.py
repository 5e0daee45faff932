"""Reading a range of offsets, in Spark's Python workers.

A range is read when the reader has got past its end, not when it has so many records: compaction, aborted transactions
and the marks that end transactions leave offsets at which there is nothing to read. It has got past the end with the
first record behind it, or when the broker says that the log ends there or later.

Whatever the client reports on the way fails the batch, except what goes away by itself: the client goes on behind a
block that it cannot decode, and that must not happen without a word.
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
"""About, of keys and values. A column cannot hold more than 2 GB."""

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
    """The records of a split. ``timeout_s``: how long to wait for a broker that sends nothing.

    Raises UnavailableError if it takes longer; if offsets were deleted, UsageError where the batch is for ever the same
    one, else UnavailableError: the next attempt is a batch without them.
    """
    client = kafka()
    topic, partition, start, end = split
    # No more is fetched ahead than is wanted, as far as the client lets itself be told.
    consumer = client.Consumer({**config, "queued.min.messages": max(1, min(100_000, end - start))})
    try:
        consumer.assign([client.TopicPartition(topic, partition, start)])
        yield from _Range(client, consumer, split, config["bootstrap.servers"], timeout_s, is_opaque).batches()
    finally:
        consumer.close()


class _Range:
    """A range that is being read. ``_position``: everything before it was read, or is not there."""

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
        self._bytes = 0  # of the records that were not handed on yet
        self._problem = "no broker has answered"
        codes = client.KafkaError
        self._passing = {  # errors after which the client goes on where it was
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
                self._take(message, records)
                if len(records) >= RECORDS_PER_RECORD_BATCH or self._bytes >= BYTES_PER_RECORD_BATCH:
                    yield self._record_batch(records)
                    records, self._bytes = [], 0
            if self._position > before:
                deadline_s = time.monotonic() + self._timeout_s
            elif time.monotonic() > deadline_s:
                raise self._unavailable(f"nothing came for {self._timeout_s:g} s: {self._problem}")
        if records:
            yield self._record_batch(records)

    def _messages(self) -> Sequence[Any]:
        """What is there; if that is nothing, the next one. To ask for many and wait would wait for all of them."""
        there = self._consumer.consume(RECORDS_PER_RECORD_BATCH, timeout=0)
        found: Sequence[Any] = there or self._consumer.consume(1, timeout=POLL_S)
        return found

    def _take(self, message: Any, records: list[Any]) -> None:
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
        wanted = f"offsets {self._start:,} to {self._end - 1:,} were wanted"
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
