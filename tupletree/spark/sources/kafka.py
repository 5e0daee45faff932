"""Kafka topics as the source of a pipeline. A batch is a range of offsets of each partition.

The coordinator and the emitter ask the brokers for the beginning and the end of each partition's log, and hand out
ranges. Spark's executors fetch the records of the ranges directly from the brokers. Progress is stored with the
pipeline's progress, and nothing is committed to Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from tupletree.connectors.kafka import KafkaLog
from tupletree.connectors.kafka.client import mistake
from tupletree.connectors.kafka.positions import Place, place_named
from tupletree.connectors.kafka.reader import RangeReader
from tupletree.connectors.log_batches import divide, parts_of
from tupletree.connectors.log_source import DeletedError
from tupletree.errors import FailedException, UnavailableError, UsageError
from tupletree.spark.source import Source
from tupletree.transactional.log_spouts import OpaqueSplitSpout, TransactionalSplitSpout
from tupletree.transactional.spouts import TransactionalSpoutBase

MIN_RECORDS_PER_TASK = 10_000
"""Minimum size of a divided range: each Spark task and connection costs some milliseconds."""

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


class KafkaTopics(Source):
    """The records of topics, with the same columns as Spark's own Kafka source, except for the type of the timestamp.

    ``timestamp`` is the time of creation or of append, as configured for the topic. ``offset`` and ``partition``
    identify a record permanently. Headers are not read.

    Args:
        bootstrap_servers: ``"host:port"``, several separated by commas or as a list. Executors must reach the brokers
            under their advertised addresses.
        topics: one name or a list. The pipeline's progress identifies partitions by their position in this list
            (partition p of ``topics[t]`` is number ``p * len(topics) + t``). With another list, or another order, a
            pipeline needs another transactional id, and reports an error otherwise. Topics may gain partitions, which
            join with the next batch.
        max_records_per_batch: maximum number of offsets of each partition in a batch.
        opaque: False: a batch is fixed forever. So a batch in progress waits for each of its partitions, and if
            retention deletes unread records, the pipeline stops and reports that. True: the pipeline continues without
            an unavailable partition, and after deleted offsets, and reports both; sinks then follow the opaque rule.
        start: the start of the first batch of a new pipeline. Partitions that a topic gains later are read from their
            beginning; but if several tasks emit and one of them has only such partitions, that task reads from
            ``start``.
        client_config: more configuration for librdkafka, for example ``security.protocol``. ``isolation.level``
            defaults to ``read_committed``: records of open and aborted transactions are left out.
        timeout_s: time that an executor waits for a broker that sends nothing, before the batch fails and is replayed.
            Should be shorter than ``topology.message.timeout.secs``.

    Needs ``pip install 'tupletree[kafka]'`` here and on Spark's executors.

    Raises UsageError for invalid arguments.
    """

    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        max_records_per_batch: int = 50_000,
        *,
        opaque: bool = False,
        start: Literal["earliest", "latest"] = "earliest",
        client_config: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        if type(max_records_per_batch) is not int or max_records_per_batch < 1:
            raise mistake("max_records_per_batch", max_records_per_batch, "a number of at least 1")
        if type(opaque) is not bool:
            raise mistake("opaque", opaque, "True or False")
        self.log = KafkaLog(bootstrap_servers, topics, start=start, client_config=client_config, timeout_s=timeout_s)
        self.max_records_per_batch = max_records_per_batch
        self.opaque = opaque

    def __repr__(self) -> str:
        return f"<KafkaTopics {', '.join(self.log.topics)} of {self.log.bootstrap_servers}>"

    def spout(self) -> TransactionalSpoutBase:
        return (OpaqueSplitSpout if self.opaque else TransactionalSplitSpout)(self.log, self.max_records_per_batch)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the records at the offsets ``["topic/partition", start, end]``, ``end`` excluded.

        Raises UnavailableError if no broker sends data within ``timeout_s``. If records were deleted, raises
        UsageError, or UnavailableError for an opaque source, whose next attempt leaves these offsets out.
        """
        name, start, end = parts_of(split)
        place = place_named(name)
        with contextlib.closing(RangeReader(self.log.config, self.log.timeout_s)) as reader:
            try:
                for messages in reader.read(place, start, end):
                    yield record_batch(place, messages)
            except DeletedError as error:
                raise (UnavailableError if self.opaque else UsageError)(str(error)) from error
            except FailedException as error:
                raise UnavailableError(str(error)) from error

    def positions_after(self, splits: Sequence[Any]) -> Mapping[str, int]:
        return {name: end for name, _, end in map(parts_of, splits)}

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        return divide(splits, tasks, MIN_RECORDS_PER_TASK)


def record_batch(place: Place, messages: Sequence[Any]) -> pa.RecordBatch:
    """Return messages of a partition as columns."""
    times = [time_ms if kind else None for kind, time_ms in (message.timestamp() for message in messages)]
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(pa.scalar(place.topic), len(messages)),
        pa.repeat(pa.scalar(place.partition, pa.int32()), len(messages)),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
