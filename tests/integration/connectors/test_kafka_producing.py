"""Messages given to a producer: their order, and those that the client refuses. The broker is librdkafka's own."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree.connectors.kafka import producing
from tupletree.connectors.kafka.producing import Message, produce

kafka = pytest.importorskip("confluent_kafka")

COUNT = 500
TOO_LARGE = 123
CONFIG = {"test.mock.num.brokers": 1, "enable.idempotence": True, "message.max.bytes": 2000, "log_level": 0}


class OneAtATime:
    """A producer of a client that is too old to take many messages at a time."""

    def __init__(self, producer: Any) -> None:
        self.produce, self.poll, self.flush = producer.produce, producer.poll, producer.flush


def written(producer: Any, config: dict[str, Any]) -> None:
    """Produce messages, and assert that all but the one that is too large are written in their order."""
    found: dict[int, list[tuple[int, bytes]]] = {}

    def report(error: Any, message: Any) -> None:
        assert error is None
        found.setdefault(message.partition(), []).append((message.offset(), message.value()))

    messages: list[Message] = [{"value": b"%d" % number, "key": b"%d" % (number % 7)} for number in range(COUNT)]
    messages[TOO_LARGE]["value"] = b"x" * 5000
    refused = produce(producer, config, "numbers", messages, report)
    assert list(refused) == [TOO_LARGE]
    assert refused[TOO_LARGE].code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE
    assert producer.flush(30) == 0
    numbers = {partition: [int(value) for _, value in sorted(many)] for partition, many in found.items()}
    assert all(many == sorted(many) for many in numbers.values())
    assert sorted(number for many in numbers.values() for number in many) == [
        number for number in range(COUNT) if number != TOO_LARGE
    ]


def test_many_messages_with_one_call() -> None:
    written(kafka.Producer(CONFIG), CONFIG)


def test_more_messages_than_one_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "MAX_TOGETHER", 60)
    written(kafka.Producer(CONFIG), CONFIG)


def test_messages_that_are_too_large_together_are_given_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "MAX_TOGETHER", 60)
    monkeypatch.setattr(producing, "MAX_BYTES_TOGETHER", 1000)
    written(kafka.Producer(CONFIG), CONFIG)


def test_a_short_queue_of_the_producer_holds_up() -> None:
    config = {**CONFIG, "queue.buffering.max.messages": 20}
    written(kafka.Producer(config), config)


def test_a_client_that_takes_one_message_at_a_time() -> None:
    written(OneAtATime(kafka.Producer(CONFIG)), CONFIG)


def test_without_a_report_refusals_are_told_too() -> None:
    producer = kafka.Producer(CONFIG)
    assert list(produce(producer, CONFIG, "numbers", [{"value": b"x" * 5000, "key": None}])) == [0]
    assert not produce(producer, CONFIG, "numbers", [{"value": b"x", "key": None}])
    assert producer.flush(30) == 0
