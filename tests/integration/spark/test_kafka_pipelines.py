"""Pipelines over topics of Kafka, in a LocalCluster, while brokers come and go."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from kafka_mock import MockCluster
from local_spark import LOCAL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tupletree.spark import KafkaTopics, Pipeline, SqlState
from tupletree.testing import LocalCluster

pytestmark = pytest.mark.nightly

CONF = {**LOCAL, "topology.max.spout.pending": 3}
RECORDS = 2000


class Sums(Pipeline):
    transactional_id = "kafka-sums"

    def __init__(self, source: KafkaTopics, path: Path) -> None:
        self.source = source
        self.state = SqlState(str(path), table="sums", key=["partition"], add=["total", "number"])

    def process(self, batch: DataFrame) -> DataFrame:
        number = F.col("value").cast("string").cast("long")
        return batch.groupBy("partition").agg(F.sum(number).alias("total"), F.count("*").alias("number"))


def sums(path: Path) -> dict[int, list[int]]:
    if not path.exists():
        return {}
    with sqlite3.connect(path) as connection:
        try:
            return {key: found for key, *found in connection.execute("SELECT partition, total, number FROM sums")}
        except sqlite3.OperationalError:
            return {}


@pytest.mark.parametrize("opaque", [False, True])
def test_every_record_takes_effect_once_though_a_broker_goes_and_comes_back(
    spark: SparkSession, tmp_path: Path, opaque: bool
) -> None:
    path = tmp_path / "sums.db"
    with MockCluster(brokers=2) as kafka, LocalCluster() as cluster:
        kafka.create("numbers", partitions=2)
        for partition in range(2):
            kafka.lead("numbers", partition, partition + 1)
        source = KafkaTopics(kafka.addresses, "numbers", 300, opaque=opaque, timeout_s=1)
        for partition in range(2):
            kafka.produce("numbers", partition, [b"%d" % number for number in range(RECORDS)])
        cluster.submit("sums", Sums(source, path).topology(), CONF)
        cluster.wait_until(lambda: sums(path).get(1, [0, 0])[1] >= 600, timeout=60)
        kafka.take_down(2)
        kafka.produce("numbers", 0, [b"%d" % number for number in range(RECORDS)])
        if opaque:
            cluster.wait_until(lambda: sums(path)[0][1] == 2 * RECORDS, timeout=60)
        kafka.bring_up(2)
        total = sum(range(RECORDS))
        truth = {0: [2 * total, 2 * RECORDS], 1: [total, RECORDS]}
        cluster.wait_until(lambda: sums(path) == truth, timeout=90)
