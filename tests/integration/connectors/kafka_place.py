"""Topics of a real broker, for the conformance suite of logs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from log_place import LogPlace

from tests.integration.kafka_brokers import broker_or_skip
from tupletree.connectors.formats import Format
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.log_spout import LogSpout

QUICK = {"topic.metadata.refresh.interval.ms": 500, "session.timeout.ms": 10_000}


class KafkaPlace(LogPlace):
    """A topic, each task with a fixed share."""

    metadata = ("key", "topic", "partition", "offset", "timestamp", "headers")
    is_group: ClassVar[bool] = False

    def __init__(self, directory: Path) -> None:
        self.broker = broker_or_skip()
        self.topic = self.broker.create(f"t{uuid.uuid4().hex[:8]}", self.PARTITIONS)
        self.partitions = self.PARTITIONS

    def spout(self, format: Format, **options: Any) -> LogSpout:
        group = self.topic if self.is_group else None
        return KafkaSpout(self.broker.addresses, self.topic, format, group=group, client_config=QUICK, **options)

    def put(self, partition: int, messages: Sequence[bytes]) -> None:
        producer = self.broker.producer()
        for message in messages:
            producer.produce(self.topic, message, b"key", partition)
        assert producer.flush(60) == 0

    def messages(self) -> list[Any]:
        """The messages that a read_committed consumer finds, each partition's in order."""
        settings = {"bootstrap.servers": self.broker.addresses, "group.id": "judge", "log_level": 2}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.topic, number, 0) for number in range(self.partitions)])
        found: list[Any] = []
        ended: set[int] = set()
        while len(ended) < self.partitions:
            message = consumer.poll(30)
            assert message is not None, "the broker answers"
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise KafkaException(error)
        consumer.close()
        return found

    def add_partition(self) -> int:
        self.partitions += 1
        self.broker.grow(self.topic, self.partitions)
        return self.partitions - 1

    def leave(self) -> None:
        self.broker.kill()

    def come_back(self) -> None:
        self.broker.start()

    def close(self) -> None:
        if not self.broker.is_running:
            self.broker.start()


class KafkaGroupPlace(KafkaPlace):
    """A topic that a consumer group shares out."""

    is_group = True

    def committed(self) -> dict[int, int]:
        """The offsets of the group, as an administrator sees them."""
        asked = self.broker.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.topic)])
        return {at.partition: at.offset for at in asked[self.topic].result(30).topic_partitions}

    def is_processed(self) -> bool:
        partitions = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        asked = self.broker.admin.list_offsets({at: OffsetSpec.latest() for at in partitions})
        ends = {at.partition: future.result(30).offset for at, future in asked.items()}
        committed = self.committed()
        return all(committed.get(number, 0) == end for number, end in ends.items())
