"""kill -9 of workers, ackers, nimbuses, of the broker and the database under a program of streams.

With exactly_once the tables equal the truth; with at_least_once no count is below it. TUPLETREE_CHAOS_SECONDS and
TUPLETREE_CHAOS_SEEDS make more of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import killed_streams
import psycopg
import pytest
from kafka_place import QUICK, KafkaPlace
from killed_driver import RATE, SECONDS, SEEDS, Feed, Killing, in_turn

from tests.integration.transactional.database_servers import PostgresServer, running
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.postgres import PostgresSink
from tupletree.streams.builder import Guarantee
from tupletree.testing import DevCluster

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
    with running(PostgresServer) as server:
        yield server


def restart(database: PostgresServer) -> None:
    database.stop()
    database.start()


def states(place: KafkaPlace, directory: Path) -> dict[str, Any]:
    """Return settings of states that outlive the workers."""
    return {
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.id": place.topic,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(directory / "states")},
    }


def rows_of(database: PostgresServer, table: str) -> list[Any]:
    """Return the rows of a table; none if it does not exist yet."""
    with psycopg.connect(database.url) as connection:
        exists = connection.execute("SELECT 1 FROM pg_tables WHERE tablename = %s", [table]).fetchone()
        return connection.execute(f"SELECT * FROM {table}").fetchall() if exists else []


def tables(database: PostgresServer) -> Counts:
    """Return the tables as they are."""
    return {name: Counter(dict(rows_of(database, name))) for name in TABLES}


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


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_tables_of_a_program_keep_its_guarantee_whatever_is_killed(
    cluster: DevCluster, place: KafkaPlace, database: PostgresServer, guarantee: Guarantee, seed: int, tmp_path: Path
) -> None:
    sinks = [
        PostgresSink(database.url, name, {key: "string", value: "bigint"}, key=key)
        for name, (key, value) in TABLES.items()
    ]
    spout = KafkaSpout(place.broker.addresses, place.topic, Text("line"), group=place.topic, client_config=QUICK)
    feed = Feed(place, in_turn(LINES, place.partitions))
    killing = Killing(cluster, place, feed, {"database": lambda: restart(database)}, killed_streams)
    killing.run(
        killed_streams.counting(spout, sinks[0], sinks[1], guarantee),
        states(place, tmp_path),
        seed,
        SECONDS,
        has_begun=lambda: tables(database)["words"],
        is_done=lambda: covers(tables(database), truth(feed.count)),
    )
    if guarantee == "exactly_once":
        assert tables(database) == truth(feed.count)
    else:
        assert covers(tables(database), truth(feed.count))


USERS = 9
VISIT_MS, PAUSE_MS = 15_000, 4_000
"""The length of a session, longer than the message timeout, and the pause after it."""


def message(number: int) -> str:
    """Return a message: first a row for each user, then their clicks. Times ascend."""
    user, at = number % USERS, number * 1000 // RATE
    if number < USERS:
        return f"user 0 u{user} name{user}"
    is_here = (at + user * 2_000) % (VISIT_MS + PAUSE_MS) < VISIT_MS
    return f"click {at} {f'u{user}' if is_here else 'nobody'} -"


def true_sessions(count: int) -> set[Any]:
    """Return the sessions of so many messages."""
    found: dict[str, list[list[int]]] = {}
    gap = int(killed_streams.GAP.total_seconds() * 1000)
    for number in range(USERS, count):
        _, at, user, _ = message(number).split()
        sessions = found.setdefault(user, [])
        if not sessions or int(at) >= sessions[-1][1]:
            sessions.append([int(at), 0, 0])
        sessions[-1][1:] = int(at) + gap, sessions[-1][2] + 1
    del found["nobody"]
    return {(f"name{user[1:]}", *session) for user, sessions in found.items() for session in sessions}


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_clicks_become_sessions_in_event_time_whatever_is_killed(
    cluster: DevCluster, place: KafkaPlace, database: PostgresServer, seed: int, tmp_path: Path
) -> None:
    spout = KafkaSpout(place.broker.addresses, place.topic, Text("line"), client_config=QUICK)
    types = {"name": "string", "start": "bigint", "stop": "bigint", "clicks": "bigint"}
    sessions = PostgresSink(database.url, "sessions", types, key=["name", "start"])
    totals = PostgresSink(database.url, "totals", {"name": "string", "clicks": "bigint"}, key="name")
    feed = Feed(place, lambda number: (0, message(number)), [(0, f"click {10**9} nobody -")])
    killing = Killing(cluster, place, feed, {"database": lambda: restart(database)}, killed_streams)
    killing.run(
        killed_streams.visiting(spout, sessions, totals),
        {**states(place, tmp_path), "topology.message.timeout.secs": 10},
        seed,
        SECONDS,
        has_begun=lambda: rows_of(database, "sessions"),
        is_done=lambda: (
            len(rows_of(database, "sessions")) >= len(true_sessions(feed.count))
            and sum(clicks for _, clicks in rows_of(database, "totals"))
            >= sum(session[3] for session in true_sessions(feed.count))
        ),
    )
    expected = true_sessions(feed.count)
    assert set(rows_of(database, "sessions")) == expected
    sums: Counter[str] = Counter()
    for name, _, _, clicks in expected:
        sums[name] += clicks
    assert dict(rows_of(database, "totals")) == sums
