"""KafkaBolt against librdkafka's own cluster: topics, keys, and messages that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from kafka_mock import MockCluster

from tupletree import Backoff, ReliableSpout, TopologyBuilder
from tupletree.connectors.formats import FormatError, Json, Text
from tupletree.connectors.kafka import KafkaBolt, KafkaSink
from tupletree.errors import UsageError
from tupletree.testing import LocalCluster, make_tuple
from tupletree.testing.simulation.external import current, external


@pytest.fixture
def kafka() -> Iterator[MockCluster]:
    with MockCluster() as made:
        for topic in ("a", "b"):
            made.create(topic, partitions=4)
        yield made


class Rows(ReliableSpout):
    """Emits rows once, and keeps those that are processed."""

    outputs = ["text", "key", "topic"]
    retry = Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=2)

    def __init__(self, rows: Any, done: Any) -> None:
        self.rows = rows
        self.done = done

    def read(self) -> Any:
        yield from self.rows

    def finished(self, id: Any) -> None:
        self.done.append(id)


def written(kafka: MockCluster, topic: str) -> dict[bytes, tuple[bytes | None, int]]:
    """The key and the partition of each message of a topic."""
    settings = {"bootstrap.servers": kafka.addresses, "group.id": "judge", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(4)])
    found: dict[bytes, tuple[bytes | None, int]] = {}
    ended = 0
    while ended < 4:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is None:
            assert message.value() not in found
            found[message.value()] = message.key(), message.partition()
        else:
            ended += 1
    consumer.close()
    return found


def run(bolt: KafkaBolt, rows: list[list[Any]]) -> tuple[list[int], list[str]]:
    """Write rows, and return those that were processed, and the errors."""
    done = external(list)
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        spout = builder.set_spout("rows", Rows(rows, done))
        builder.set_bolt("out", bolt).shuffle_grouping(spout)
        cluster.submit("out", builder.create_topology())
        cluster.wait_until(lambda: len(current(done)) == len(rows), 60)
        return sorted(current(done)), [str(error) for _, error in cluster.errors("out")]


def test_tuples_are_messages_with_keys_in_the_topic_of_each(kafka: MockCluster) -> None:
    rows = [[f"message {number}", number % 3, "ab"[number % 2]] for number in range(1000)]
    bolt = KafkaBolt(kafka.addresses, topic_field="topic", format=Text(), key_field="key")
    assert run(bolt, rows) == (list(range(1000)), [])
    for topic in "ab":
        found = written(kafka, topic)
        wanted = {text.encode(): str(key).encode() for text, key, of in rows if of == topic}
        assert {text: key for text, (key, _) in found.items()} == wanted
        places = {(key, partition) for key, partition in found.values()}
        assert len(places) == len({key for key, _ in places}), "equal keys are in one partition"


def test_a_message_that_is_too_large_fails_alone_and_at_once(kafka: MockCluster) -> None:
    rows = [["small", None, "a"], ["x" * 2_000_000, None, "a"], ["also small", None, "a"]]
    done, errors = run(KafkaBolt(kafka.addresses, "a", Text()), rows)
    assert done == [0, 1, 2], "the one in the middle is given up"
    [given_up] = [error for error in errors if "is given up" in error]
    assert "message 1 failed once and is given up" in given_up
    assert "topic 'a' does not take a message of 2,000,000 bytes" in given_up
    assert written(kafka, "a").keys() == {b"small", b"also small"}


def test_a_row_that_is_too_large_for_the_client_is_a_fault_and_no_other(kafka: MockCluster) -> None:
    sink = KafkaSink(kafka.addresses, "a", key_field="key")
    largest = 1_000_000 - 64
    faults = sink.faults([[b"x" * size, b"key"] for size in (largest - 3, largest - 2, 2_000_000)])
    assert sorted(faults) == [1, 2]
    assert "2,000,000 bytes is larger than message.max.bytes" in str(faults[2])
    kafka.produce("a", 0, [b"x" * (largest - 3)], b"key")


def test_a_tuple_without_a_usable_key_or_topic_fails_alone(kafka: MockCluster) -> None:
    rows = [["good", "k", "a"], ["no topic", "k", ""], ["no key", 1.5, "a"], ["no topic either", "k", "a/b\0"]]
    bolt = KafkaBolt(kafka.addresses, topic_field="topic", format=Json(["text"]), key_field="key")
    done, errors = run(bolt, rows)
    assert done == [0, 1, 2, 3]
    assert any("field 'topic' is no topic" in error for error in errors)
    for text in ("text", "topic", "key"):
        half = make_tuple({"text": "good", "topic": "a", "key": "k", text: "half \ud83d"})
        with pytest.raises(FormatError):
            bolt.message(half, bolt.format.encode(half))
    assert any("field 'key' is no key" in error for error in errors)
    assert written(kafka, "a").keys() == {b'{"text": "good"}'}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "Kafka: topic is None; either a topic or a topic_field was expected"),
        ({"topic": "a", "topic_field": "b"}, "Kafka: topic is 'a'; either a topic or a topic_field was expected"),
        ({"topic": "two words"}, "Kafka: topics is 'two words'; the name of a topic"),
        ({"topic": "a", "client_config": {"acsk": "all"}}, 'client_config: No such configuration property: "acsk"'),
    ],
)
def test_a_mistake_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        KafkaBolt("a:1", **arguments)
