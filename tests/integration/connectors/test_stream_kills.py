"""kill -9 of workers, ackers, nimbuses, of the broker and the database under a program of streams.

With exactly_once the tables equal the truth; with at_least_once no count is below it. TUPLETREE_CHAOS_SECONDS and
TUPLETREE_CHAOS_SEEDS make more of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import killed_streams
import psycopg
import pytest
from kafka_place import QUICK, KafkaPlace
from killed_driver import Killing

from tests.integration.transactional.database_servers import PostgresServer
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.postgres import PostgresSink
from tupletree.streams.builder import Guarantee
from tupletree.testing import DevCluster

SECONDS = float(os.environ.get("TUPLETREE_CHAOS_SECONDS", "15"))
SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]
LINES = [f"a{number % 7} b{number % 5} b{number % 5} ccc{'c' * (number % 3)}" for number in range(30)]
TABLES = {"words": ("word", "times"), "letters": ("letter", "length")}

Counts = dict[str, Counter[str]]


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Iterator[KafkaPlace]:
    made = KafkaPlace(tmp_path)
    yield made
    made.close()


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    if reason := PostgresServer.missing():
        pytest.skip(reason)
    server = PostgresServer()
    server.start()
    yield server
    server.close()


def tables(database: PostgresServer) -> Counts:
    """Return the tables as they are."""
    with psycopg.connect(database.url) as connection:
        found = {row[0] for row in connection.execute("SELECT tablename FROM pg_tables")}
        return {
            name: Counter(dict(connection.execute(f"SELECT * FROM {name}").fetchall() if name in found else ()))
            for name in TABLES
        }


def truth(count: int) -> Counts:
    """Return the tables for so many lines."""
    words = [word for number in range(count) for word in LINES[number % len(LINES)].split()]
    lengths: Counter[str] = Counter()
    for word in words:
        lengths[word[0]] += len(word)
    return {"words": Counter(words), "letters": lengths}


def covers(found: Counts, expected: Counts) -> bool:
    """True if no count is below the truth."""
    return all(found[name] >= expected[name] for name in TABLES)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_tables_of_a_program_keep_its_guarantee_whatever_is_killed(
    cluster: DevCluster, place: KafkaPlace, database: PostgresServer, guarantee: Guarantee, seed: int, tmp_path: Path
) -> None:
    def crash() -> None:
        database.stop()
        database.start()

    sinks = [
        PostgresSink(database.url, name, {key: "string", value: "bigint"}, key=key)
        for name, (key, value) in TABLES.items()
    ]
    spout = KafkaSpout(place.broker.addresses, place.topic, Text("line"), group=place.topic, client_config=QUICK)
    conf: Mapping[str, Any] = {
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.id": place.topic,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    killing = Killing(cluster, place, LINES, {"database": crash}, killed_streams)
    killing.run(
        killed_streams.counting(spout, sinks[0], sinks[1], guarantee),
        conf,
        seed,
        SECONDS,
        has_begun=lambda: tables(database)["words"],
        is_done=lambda: covers(tables(database), truth(killing.feed.count)),
    )
    if guarantee == "exactly_once":
        assert tables(database) == truth(killing.feed.count)
    else:
        assert covers(tables(database), truth(killing.feed.count))
