"""History first: a program of streams begins with what a pipeline has computed, at the offsets where that ends."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import spark_stream_programs
from local_spark import LOCAL
from pyspark.sql import SparkSession
from spark_stream_programs import Counts, counting, history_of

from bench._kafka_broker import Broker
from tests.integration.kafka_brokers import broker_or_skip
from tupletree.errors import UsageError
from tupletree.streams import ParquetHistory
from tupletree.testing import DevCluster, LocalCluster, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

WORDS = 20_000
ROUNDS = 3
"""The number of times that each word is in the topic, before the history is made, and again afterwards."""


@pytest.fixture(scope="module")
def broker() -> Broker:
    return broker_or_skip()


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=2) as running:
        yield running


def produce(broker: Broker, topic: str, rounds: int) -> None:
    producer = broker.producer()
    for number in range(WORDS * rounds):
        producer.produce(topic, f"word-{number % WORDS}", None, number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


def history(directory: Path) -> ParquetHistory | None:
    """Return the history of this moment; None before the first transaction."""
    try:
        return history_of(directory)
    except UsageError:
        return None


def counts(database: Path) -> Counter[str]:
    if not database.exists():
        return Counter()
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            return Counter(dict(connection.execute("SELECT word, n FROM counts")))
        except sqlite3.OperationalError:  # no table yet
            return Counter()


def log_has(cluster: DevCluster, text: str, times: int) -> bool:
    """True if the workers have logged a text so many times."""
    logs = [path.read_text(errors="replace") for path in Path(cluster.directory).rglob("*.log*")]
    return sum(log.count(text) for log in logs) >= times


@pytest.mark.nightly
def test_tuples_go_on_exactly_where_a_pipeline_has_counted_whatever_dies_during_the_load(
    spark: SparkSession, broker: Broker, cluster: DevCluster, tmp_path: Path
) -> None:
    topic, directory, database = broker.create("history", 2), tmp_path / "history", tmp_path / "counts.db"
    produce(broker, topic, ROUNDS)
    with LocalCluster() as local:
        local.submit("counts", Counts(broker.addresses, topic, directory, WORDS // 4).topology(), LOCAL)
        local.wait_until(lambda: history(directory) is not None, timeout=120)
        made = history_of(directory)
        local.wait_until(lambda: sum(history_of(directory).positions.values()) == WORDS * ROUNDS, timeout=120)
    total = sum(value for _, value in made.rows())
    assert total == sum(made.positions.values()) < WORDS * ROUNDS, "a part of the topic, as far as the positions say"

    program = counting(broker.addresses, topic, made, database)
    conf = {
        "topology.workers": 2,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
        "topology.state.checkpoint.interval.ms": 300,
    }
    cluster.client.submit("counting", program, conf, code=[str(spark_stream_programs.__file__)])
    for times in (1, 2):
        wait_until(lambda times=times: log_has(cluster, "history.loading", times), 60, what="the load begins")
        cluster.kill("worker")
    wait_until(lambda: counts(database), 120, what="the first counts")
    cluster.kill("worker")
    produce(broker, topic, 1)
    expected = Counter({f"word-{number}": ROUNDS + 1 for number in range(WORDS)})
    wait_until(lambda: counts(database).total() >= expected.total(), 180, what="the effects of each message")
    assert counts(database) == expected
    loads = sum(
        path.read_text(errors="replace").count("history.loading") for path in Path(cluster.directory).rglob("*.log*")
    )
    print(f"{loads} loads, history up to {made.positions}, {len(counts(database))} words")
