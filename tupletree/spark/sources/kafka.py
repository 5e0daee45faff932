"""Kafka topics as the source of a pipeline. A batch is a range of offsets of each partition.

The coordinator and the emitter ask the brokers for the beginning and the end of each partition's log, and hand out
ranges. Spark's executors fetch the records of the ranges directly from the brokers. Progress is stored with the
pipeline's progress, and nothing is committed to Kafka.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tupletree.errors import UsageError
from tupletree.spark.source import Source
from tupletree.spark.sources.kafka_client import FIXED, configuration, kafka
from tupletree.spark.sources.kafka_positions import Start, divide
from tupletree.spark.sources.kafka_reader import read
from tupletree.spark.sources.kafka_spouts import KafkaSpout, OpaqueKafkaSpout, Topics
from tupletree.transactional.spouts import TransactionalSpoutBase

MIN_RECORDS_PER_TASK = 10_000
"""Minimum size of a divided range: each Spark task and connection costs some milliseconds."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\w+://)?[^\s,/]+:\d+")


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
        start: Start = "earliest",
        client_config: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.bootstrap_servers = _servers(bootstrap_servers)
        self.topics = _topics(topics)
        if type(max_records_per_batch) is not int or max_records_per_batch < 1:
            raise _mistake("max_records_per_batch", max_records_per_batch, "a number of at least 1")
        if type(opaque) is not bool:
            raise _mistake("opaque", opaque, "True or False")
        if start not in ("earliest", "latest"):
            raise _mistake("start", start, "'earliest' or 'latest'")
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise _mistake("timeout_s", timeout_s, "a number of seconds")
        self.max_records_per_batch = max_records_per_batch
        self.opaque = opaque
        self.start: Start = start
        self.timeout_s = timeout_s
        self._config = configuration(self.bootstrap_servers, _client_config(client_config or {}))
        self._check_config()

    def __repr__(self) -> str:
        return f"<KafkaTopics {', '.join(self.topics)} of {self.bootstrap_servers}>"

    def spout(self) -> TransactionalSpoutBase:
        topics = Topics(self._config, self.topics, self.max_records_per_batch, self.start)
        return OpaqueKafkaSpout(topics) if self.opaque else KafkaSpout(topics)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the records at the offsets ``[topic, partition, start, end]``, ``end`` excluded.

        Raises UnavailableError if no broker sends data within ``timeout_s``. If records were deleted, raises
        UsageError, or UnavailableError for an opaque source.
        """
        return read(self._config, split, self.timeout_s, is_opaque=self.opaque)

    def divide(self, splits: Sequence[Any], tasks: int) -> Sequence[Any]:
        return divide(splits, tasks, MIN_RECORDS_PER_TASK)

    def _check_config(self) -> None:
        """Have the Kafka client, if it is installed here, check its configuration. No broker is needed."""
        if importlib.util.find_spec("confluent_kafka") is None:
            return
        client = kafka()
        try:
            client.Consumer(self._config).close()
        except (client.KafkaException, TypeError, ValueError) as error:
            what = error.args[0].str() if isinstance(error, client.KafkaException) else error
            raise UsageError(f"KafkaTopics: client_config: {what}") from None


def _servers(given: str | Sequence[str]) -> str:
    servers = [server.strip() for server in given.split(",")] if isinstance(given, str) else given
    if not _are_names(servers) or not all(map(_SERVER.fullmatch, servers)):
        raise _mistake("bootstrap_servers", given, "'host:port', or several")
    return ",".join(servers)


def _topics(given: str | Sequence[str]) -> tuple[str, ...]:
    topics = [given] if isinstance(given, str) else given
    if not _are_names(topics) or not all(map(_TOPIC.fullmatch, topics)) or set(topics) & {".", ".."}:
        raise _mistake("topics", given, "the name of a topic, or a list of names,")
    if len(set(topics)) < len(topics):
        raise _mistake("topics", given, "a list that has each name once")
    return tuple(topics)


def _are_names(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(name, str) for name in given)


def _client_config(given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise _mistake("client_config", given, "a dict")
    for key, value in given.items():
        if key in FIXED or key == "bootstrap.servers":
            raise UsageError(f"KafkaTopics: client_config has {key!r}, which the source sets itself")
        if not isinstance(key, str) or not isinstance(value, str | int | float):
            raise UsageError(
                f"KafkaTopics: client_config has {key!r}: {value!r}; a string, a number or a bool was expected, as it "
                f"is copied to other processes"
            )
    return dict(given)


def _mistake(name: str, value: object, expected: str) -> UsageError:
    return UsageError(f"KafkaTopics: {name} is {value!r}; {expected} was expected")
