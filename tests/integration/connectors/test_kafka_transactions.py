"""Transactional topologies over topics: rows, what cannot be decoded, and exact sums under kill -9."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import kafka_sums
import pytest
from kafka_mock import MockCluster
from kafka_sums import summing, table, truth

from tests.integration.kafka_brokers import broker_or_skip
from tests.variants import at_night_but
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaLog
from tupletree.errors import UsageError
from tupletree.testing import DevCluster, LocalCluster, wait_until
from tupletree.transactional.kafka import OpaqueKafkaSpout, TransactionalKafkaSpout

SPOUTS = [TransactionalKafkaSpout, OpaqueKafkaSpout]


def digits(numbers: list[int]) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("kind", SPOUTS)
def test_rows_are_decoded_with_metadata_and_what_cannot_be_decoded_is_left_out(kind: Any, tmp_path: Path) -> None:
    numbers = {0: list(range(250)), 1: list(range(1000, 1100))}
    with MockCluster() as kafka, LocalCluster() as cluster:
        kafka.create("numbers", partitions=2)
        for partition, values in numbers.items():
            kafka.produce("numbers", partition, [b"\xff", *digits(values)])
        spout = kind(kafka.addresses, "numbers", Text(), max_per_batch=60, metadata=["partition"])
        cluster.submit("sums", summing("sums", spout, tmp_path))
        cluster.wait_until(lambda: table(spout, tmp_path).items() == truth(numbers), 60)
        errors = {str(error) for _, error in cluster.errors("sums")}
        assert any("partition 'numbers/1', position 0: the message is not UTF-8" in error for error in errors)


def test_ranges_that_follow_each_other_are_read_by_one_consumer() -> None:
    with MockCluster() as kafka:
        kafka.create("words", partitions=2)
        for partition in range(2):
            kafka.produce("words", partition, [b"%d-%d" % (partition, number) for number in range(1000)])
        log = KafkaLog(kafka.addresses, "words")
        log.open()
        try:
            for partition, start, end in [(0, 0, 7), (0, 7, 500), (1, 10, 20), (0, 500, 1000), (0, 3, 5), (0, 5, 5)]:
                found = [record for some in log.read(f"words/{partition}", start, end) for record in some]
                assert [record.data for record in found] == [b"%d-%d" % (partition, at) for at in range(start, end)]
                assert [record.position for record in found] == list(range(start, end))
        finally:
            log.close()


@pytest.mark.long
def test_a_start_in_time_is_the_first_message_that_is_not_older(tmp_path: Path) -> None:
    broker = broker_or_skip()
    topic = broker.create("times", 1)
    producer = broker.producer()
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=1_700_000_000_000 + 1000 * number)
    assert producer.flush(30) == 0
    start = datetime.datetime.fromtimestamp(1_700_000_006, datetime.UTC)
    spout = TransactionalKafkaSpout(broker.addresses, topic, Text(), metadata=["partition"], start=start)
    with LocalCluster() as cluster:
        cluster.submit("sums", summing("sums", spout, tmp_path))
        cluster.wait_until(lambda: table(spout, tmp_path).items() == truth({0: [6, 7, 8, 9]}), 60)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"metadata": ["colour"]}, "Kafka: metadata names 'colour'; what Kafka has of a message is key, topic, "),
        ({"max_per_batch": 0}, "Kafka: max_per_batch is 0; a whole number of at least 1 was expected"),
        ({"start": "now"}, "Kafka: start is 'now'; 'earliest', 'latest', a datetime or offsets such as"),
    ],
)
def test_a_mistake_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        TransactionalKafkaSpout("a:1", "numbers", Text(), **arguments)


@pytest.mark.long
@pytest.mark.parametrize("kind", at_night_but([OpaqueKafkaSpout], SPOUTS))
def test_sums_are_exact_though_workers_are_killed(kind: Any, tmp_path: Path) -> None:
    broker = broker_or_skip()
    topic = broker.create(f"sums-{kind.__name__}", 2)
    numbers = {partition: list(range(partition, 6000 + partition)) for partition in range(2)}
    producer = broker.producer()
    for partition, values in numbers.items():
        for number in digits(values):
            producer.produce(topic, number, partition=partition)
    assert producer.flush(60) == 0
    spout = kind(broker.addresses, topic, Text(), max_per_batch=50, metadata=["partition"])
    with DevCluster(slots=2) as cluster:
        conf = {"topology.workers": 2, "topology.max.spout.pending": 3}
        cluster.client.submit("sums", summing("sums", spout, tmp_path), conf, code=[kafka_sums.__file__])

        def count() -> int:
            rows = table(spout, tmp_path).items() if (tmp_path / "sums.db").exists() else {}
            return sum(value for key, value in rows.items() if key.startswith("count"))

        for share, index in ((0.1, 0), (0.4, 1), (0.7, 0)):
            wait_until(lambda share=share: count() > share * 12_000, 120, what="it gets on")
            cluster.kill("worker", index)
        wait_until(lambda: count() >= 12_000, 120, what="all are committed")
        assert table(spout, tmp_path).items() == truth(numbers)
        cluster.client.kill("sums", wait_secs=0)
        wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="workers end")
