"""Records of ranges of offsets, read from librdkafka's own cluster: here, and in the Python workers of a real Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from kafka_mock import MockCluster
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tupletree.connectors.kafka import reader
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sources.kafka import KafkaTopics


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as made:
        made.create("words", partitions=2)
        for partition in range(2):
            made.produce("words", partition, [b"%d-%d" % (partition, index) for index in range(25_000)], key=b"k")
        yield made


def offsets(source: KafkaTopics, split: list[Any]) -> list[int]:
    return [offset for batch in source.read(split) for offset in batch.column("offset").to_pylist()]


def test_a_split_is_its_offsets_and_no_others(cluster: MockCluster) -> None:
    source = KafkaTopics(cluster.addresses, "words")
    assert offsets(source, ["words/0", 7, 12]) == [7, 8, 9, 10, 11]
    assert offsets(source, ["words/1", 24_000, 25_000]) == list(range(24_000, 25_000))
    assert offsets(source, ["words/0", 0, 25_000]) == list(range(25_000))
    assert offsets(source, ["words/0", 9, 9]) == []


def test_large_records_come_in_small_record_batches(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 3_500)
    topic = cluster.create("large")
    cluster.produce(topic, 0, [bytes(1_000)] * 10)
    batches = KafkaTopics(cluster.addresses, topic).read([f"{topic}/0", 0, 10])
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_spark_reads_every_column_in_a_task_for_each_split(spark: SparkSession, cluster: MockCluster) -> None:
    source = KafkaTopics(cluster.addresses, "words")
    splits = source.divide([["words/0", 0, 25_000], ["words/1", 10, 20]], 4)
    frame = source.dataframe(spark, splits)
    assert frame.rdd.getNumPartitions() == len(splits) == 3
    assert frame.groupBy("partition").count().sort("partition").collect() == [(0, 25_000), (1, 10)]
    (row,) = frame.where("partition = 1 AND offset = 13").collect()
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k", b"1-13", "words")
    assert abs(datetime.datetime.now() - row.timestamp) < datetime.timedelta(hours=1)


def test_a_broker_that_is_away_fails_the_batch_with_one_sentence(spark: SparkSession) -> None:
    with MockCluster() as gone:
        addresses = gone.addresses
    source = KafkaTopics(addresses, "words", timeout_s=0.5)
    sentence = (
        rf"UnavailableError: topic 'words', partition 0 of the brokers {addresses}, while reading offsets 5 to 9: "
        rf"at offset 5: no data arrived for 0.5 s: "
    )
    with pytest.raises(PythonException, match=sentence):
        source.dataframe(spark, [["words/0", 5, 10]]).collect()


def test_a_log_that_ends_too_early_is_waited_for_and_then_said(cluster: MockCluster) -> None:
    source = KafkaTopics(cluster.addresses, "words", timeout_s=0.5)
    with pytest.raises(
        UnavailableError, match=r"at offset 25,000: no data arrived for 0\.5 s: the log ends at offset 25,0"
    ):
        offsets(source, ["words/0", 24_990, 25_001])


@pytest.mark.parametrize(("opaque", "kind"), [(False, UsageError), (True, UnavailableError)])
def test_deleted_records_are_an_error_and_not_skipped(
    cluster: MockCluster, opaque: bool, kind: type[Exception]
) -> None:
    topic = cluster.create(f"deleted-{opaque}")
    cluster.produce(topic, 0, [bytes(100_000)] * 100)  # more than is kept
    source = KafkaTopics(cluster.addresses, topic, opaque=opaque)
    with pytest.raises(
        kind, match=r"while reading offsets 0 to 9: positions 0 to 9 were deleted, by retention or by hand"
    ):
        offsets(source, [f"{topic}/0", 0, 10])
