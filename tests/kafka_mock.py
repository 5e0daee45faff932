"""A cluster of Kafka inside the process of a test: the one that comes with librdkafka, driven through its C interface.

Any client in any process can connect to it. It has topics, offsets, leaders and retention by size (the newest 5 MB of
each partition); it has no compaction, no transactions and no growth of partitions.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Self

import confluent_kafka

_PRODUCER = 0


def _library() -> ctypes.CDLL:
    """The librdkafka that confluent_kafka has loaded into this process, wherever it came from."""
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "librdkafka" in line}
    library = ctypes.CDLL(loaded.pop())
    pointer = ctypes.c_void_p
    for name, result, arguments in [
        ("rd_kafka_conf_new", pointer, []),
        (
            "rd_kafka_conf_set",
            ctypes.c_int,
            [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
        ),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        ("rd_kafka_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, ctypes.c_int]),
        ("rd_kafka_mock_cluster_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, [pointer]),
        ("rd_kafka_mock_topic_create", ctypes.c_int, [pointer, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
        (
            "rd_kafka_mock_partition_set_leader",
            ctypes.c_int,
            [pointer, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32],
        ),
        ("rd_kafka_mock_topic_set_error", None, [pointer, ctypes.c_char_p, ctypes.c_int]),
        ("rd_kafka_mock_broker_set_down", ctypes.c_int, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", ctypes.c_int, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_coordinator_set", ctypes.c_int, [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int32]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockCluster:
    """Brokers 1, 2, … on ports of the loopback interface. To be closed."""

    def __init__(self, brokers: int = 1) -> None:
        self._library = _library()
        message = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"2", message, len(message))
        self._client = self._library.rd_kafka_new(_PRODUCER, conf, message, len(message))
        if not self._client:
            raise RuntimeError(message.value.decode())
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        self.addresses: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def create(self, topic: str, partitions: int = 1) -> str:
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))
        return topic

    def produce(self, topic: str, partition: int, values: list[bytes], key: bytes | None = None) -> None:
        if self._producer is None:
            self._producer = confluent_kafka.Producer({"bootstrap.servers": self.addresses, "log_level": 2})
        for value in values:
            self._producer.produce(topic, value, key, partition)
        assert self._producer.flush(30) == 0

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Let a broker lead a partition; -1: none does."""
        self._check(self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker))

    def coordinate(self, kind: str, name: str, broker: int) -> None:
        """Let a broker coordinate a "group" or a "transaction"."""
        self._check(self._library.rd_kafka_mock_coordinator_set(self._cluster, kind.encode(), name.encode(), broker))

    def fail_topic(self, topic: str, code: int = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART) -> None:
        """Let questions about a topic be answered with an error; 0: no longer."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), code)

    def take_down(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def bring_up(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    def close(self) -> None:
        self._producer = None
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(confluent_kafka.KafkaError(code).str())
