"""Topics of Kafka as a sink: batches are produced, and confirmed by delivery reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree.connectors.arguments import check_field
from tupletree.connectors.formats import Format, FormatError, utf8, value_of
from tupletree.connectors.kafka.client import (
    TOPIC,
    check_with_client,
    checked_client_config,
    checked_servers,
    checked_topic,
    connection_error,
    connection_errors,
    kafka,
    mistake,
)
from tupletree.connectors.kafka.producing import Message, produce
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.sinks import Sink, SinkBolt
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.tuples import Tuple

OPEN_S: Final = 5.0
"""The maximum time that ``open`` waits for a broker."""

DEFAULTS: Final = {
    "enable.idempotence": True,  # a message that the client sends again is written once, in its order
    "linger.ms": 5,
    "delivery.timeout.ms": 10_000,
    "delivery.report.only.error": True,  # what is reported of a message is its failure: a call for each costs more
    "partitioner": "murmur2_random",  # keys go to the partitions that other clients of Kafka choose
    "log_level": 2,  # errors are raised, and need not go to stderr too
}


class KafkaTopic(Sink):
    """Topics as a sink. ``topic``: of all messages; empty: each message names its own."""

    title: ClassVar[str] = "Kafka"

    def __init__(self, bootstrap_servers: str | Sequence[str], topic: str, client_config: Mapping[str, Any] | None):
        servers = checked_servers(bootstrap_servers)
        self.topic = topic
        self.config = {**DEFAULTS, **checked_client_config(client_config, {}), "bootstrap.servers": servers}
        check_with_client("Producer", self.config)
        self._producer: Any = None

    def open(self) -> None:
        with connection_errors(self.config):
            producer = kafka().Producer(self.config)
            producer.list_topics(timeout=OPEN_S)
        self._producer = producer

    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException]:
        """Return when each message is delivered, or given up after ``delivery.timeout.ms``. Raises ConnectionError."""
        failed: dict[tuple[str, bytes, bytes | None], Any] = {}  # equal messages fail together

        def report(error: Any, message: Any) -> None:
            if error is not None:
                failed[message.topic(), message.value(), message.key()] = error

        for topic, part in self._by_topic(messages).items():
            batch: list[Message] = [{"value": one.data, "key": one.key} for one in part]
            for index, error in produce(self._producer, self.config, topic, batch, report).items():
                failed[topic, part[index].data, part[index].key] = error  # the client knows already, such as its size
        self._producer.flush()
        for failure in failed.values():
            if failure.fatal():
                raise connection_error(self.config, failure.str())
        if not failed:
            return {}
        failures = [failed.get((self.topic or one.topic, one.data, one.key)) for one in messages]
        return {index: self._refusal(one, messages[index]) for index, one in enumerate(failures) if one is not None}

    def _by_topic(self, messages: Sequence[SinkMessage]) -> Mapping[str, Sequence[SinkMessage]]:
        if self.topic:
            return {self.topic: messages}
        found: defaultdict[str, list[SinkMessage]] = defaultdict(list)
        for message in messages:
            found[message.topic].append(message)
        return found

    def close(self) -> None:
        self._producer = None

    def _refusal(self, error: Any, message: SinkMessage) -> FailedException:
        what = f"Kafka: topic {self.topic or message.topic!r} does not take a message of {len(message.data):,} bytes"
        if error.code() in (kafka().KafkaError.MSG_SIZE_TOO_LARGE, kafka().KafkaError.INVALID_RECORD):
            return FailedException(f"{what}: {error.str()}", retry=False)
        return ReportedFailedException(f"{what}: {error.str()}")


class KafkaBolt(SinkBolt):
    """Writes each tuple as a message. It is acked when Kafka has confirmed the message.

        builder.set_bolt("out", KafkaBolt("broker:9092", "totals", Json(["order", "total"]), key_field="order"))

    ``topic``: the topic of all messages; or ``topic_field``: the field with the topic of each, as text.
    ``key_field``: the field with the key: bytes, text, a whole number, or None for no key. It need not be one of the
    format. ``client_config``: more configuration for librdkafka.

    At least once, by an idempotent producer: a message that the client sends again is not written twice; a tuple that
    is replayed is. A message that the brokers refuse fails alone, one that is too large without a retry. Tuples fail
    if no broker confirms them within ``delivery.timeout.ms`` (10 s). Messages with one key keep their order, except
    those that are replayed. Raises UsageError for wrong arguments.
    """

    max_batch = 5000
    settled_by = "KafkaSink"

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str | None = None,
        format: Format | None = None,
        *,
        topic_field: str | None = None,
        key_field: str | None = None,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        if (topic is None) == (topic_field is None):
            raise mistake("topic", topic, "either a topic or a topic_field")
        if topic is not None:
            topic = checked_topic(topic)
        check_field(type(self).__name__, "topic_field", topic_field)
        check_field(type(self).__name__, "key_field", key_field)
        super().__init__(KafkaTopic(bootstrap_servers, topic or "", client_config), format)
        self.topic_field = topic_field
        self.key_field = key_field

    def message(self, tup: Tuple, data: bytes) -> SinkMessage:
        key = None if self.key_field is None else key_of(tup, self.key_field)
        return SinkMessage(data, None, "" if self.topic_field is None else self._topic(tup, self.topic_field), key)

    @staticmethod
    def _topic(tup: Tuple, field: str) -> str:
        value = value_of(tup, field)
        if not isinstance(value, str) or not TOPIC.fullmatch(value):
            raise FormatError(f"field {field!r} is no topic: the name of a topic was expected")
        return value


def key_of(tup: Tuple, field: str) -> bytes | None:
    """Return the key of a message from a field. Raises FormatError for a value that is no key."""
    value = value_of(tup, field)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        return utf8(value, f"field {field!r}")
    if value is None or isinstance(value, bytes):
        return value
    raise FormatError(f"field {field!r} is no key: a key is bytes, text, a whole number or None")
