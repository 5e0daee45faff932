"""kill -9 of workers, ackers, nimbuses, of the broker and the database: each message of a topic has its effect once.

In the target is a row for each message of the topic: with aligned checkpoints numbered, as a state has counted it.
TUPLETREE_CHAOS_SECONDS and TUPLETREE_CHAOS_SEEDS make more of it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import killed_exactly_once
import psycopg
import pytest
from kafka_place import QUICK, KafkaPlace
from killed_driver import SECONDS, SEEDS, Feed, Killing, in_turn
from killed_exactly_once import COLUMNS, KEY, committing, counting

from tests.integration.transactional.database_servers import PostgresServer
from tests.variants import at_night_but
from tupletree import Topology
from tupletree.connectors.formats import Json, Text
from tupletree.connectors.kafka import KafkaSink, KafkaSpout
from tupletree.connectors.postgres import PostgresSink
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.testing import DevCluster
from tupletree.transactional.kafka import TransactionalKafkaSpout

WORDS = [f"word{number}" for number in range(30)]

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Iterator[KafkaPlace]:
    made = KafkaPlace(tmp_path)
    yield made
    made.close()


class KafkaTarget:
    """A topic, as a read_committed consumer sees it."""

    def __init__(self, directory: Path) -> None:
        self.place = KafkaPlace(directory)
        self.victims: Mapping[str, Callable[[], None]] = {}

    def sink(self, fields: list[str]) -> TransactionalSink:
        return KafkaSink(self.place.broker.addresses, self.place.topic, Json(fields))

    def rows(self) -> list[Row]:
        return [tuple(json.loads(message.value()).values()) for message in self.place.messages()]

    def close(self) -> None:
        self.place.close()


class PostgresTarget:
    """A table whose triggers log each write, also those that an upsert hides."""

    def __init__(self, directory: Path) -> None:
        if reason := PostgresServer.missing():
            pytest.skip(reason)
        self.server = PostgresServer()
        self.server.start()
        self.victims = {"database": self.crash}

    def sink(self, fields: list[str]) -> TransactionalSink:
        columns = {name: COLUMNS[name] for name in fields}
        for table in ("results", "writes"):
            self.query(f'CREATE TABLE {table} (partition int, "offset" bigint, word text)')
            if "nth" in columns:
                self.query(f"ALTER TABLE {table} ADD nth bigint")
        self.query('ALTER TABLE results ADD PRIMARY KEY (partition, "offset")')
        self.query(
            "CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO writes SELECT new.*; RETURN NULL; END'"
        )
        self.query("CREATE TRIGGER log AFTER INSERT OR UPDATE ON results FOR EACH ROW EXECUTE FUNCTION log()")
        return PostgresSink(self.server.url, "results", columns, key=KEY)

    def rows(self) -> list[Row]:
        """The rows of the table, each as often as it was written."""
        return self.query('SELECT results.* FROM results JOIN writes USING (partition, "offset")')

    def crash(self) -> None:
        self.server.stop()
        self.server.start()

    def query(self, statement: Any) -> list[Row]:
        with psycopg.connect(self.server.url) as database:
            found = database.execute(statement)
            return found.fetchall() if found.description else []

    def close(self) -> None:
        self.server.close()


TARGETS = {"kafka": KafkaTarget, "postgres": PostgresTarget}


@pytest.fixture(params=at_night_but(["kafka"], TARGETS))
def target(request: pytest.FixtureRequest, place: KafkaPlace, tmp_path: Path) -> Iterator[Any]:
    made = TARGETS[request.param](tmp_path)
    yield made
    made.close()


def aligned(place: KafkaPlace, target: Any, directory: Path) -> tuple[Topology, dict[str, Any]]:
    spout = KafkaSpout(
        place.broker.addresses, place.topic, Text("word"), group=place.topic, metadata=KEY, client_config=QUICK
    )
    return counting(spout, target.sink(list(COLUMNS))), {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.id": place.topic,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(directory / "states")},
    }


def transactional(place: KafkaPlace, target: Any, directory: Path) -> tuple[Topology, dict[str, Any]]:
    spout = TransactionalKafkaSpout(
        place.broker.addresses, place.topic, Text("word"), max_per_batch=500, metadata=KEY, client_config=QUICK
    )
    sink = target.sink(["partition", "offset", "word"])
    return committing(place.topic, spout, sink), {"topology.max.spout.pending": 4}


def truth(place: KafkaPlace, *, counted: bool) -> Counter[Row]:
    """The rows of what is in the topic."""
    rows: Counter[Row] = Counter()
    nth: dict[str, Iterator[int]] = {}
    for message in place.messages():
        word = message.value().decode()
        row = (message.partition(), message.offset(), word)
        rows[(*row, next(nth.setdefault(word, itertools.count(1)))) if counted else row] += 1
    return rows


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("topology", at_night_but([aligned], [aligned, transactional]))
def test_each_message_is_written_once_whatever_is_killed(
    cluster: DevCluster, place: KafkaPlace, target: Any, topology: Any, seed: int, tmp_path: Path
) -> None:
    made, conf = topology(place, target, tmp_path)
    feed = Feed(place, in_turn(WORDS, place.partitions))
    killing = Killing(cluster, place, feed, target.victims, killed_exactly_once)
    killing.run(
        made,
        conf,
        seed,
        SECONDS,
        has_begun=target.rows,
        is_done=lambda: len(target.rows()) >= feed.count,
    )
    assert Counter(target.rows()) == truth(place, counted=topology is aligned)
