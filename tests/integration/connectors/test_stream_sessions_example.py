"""The example of visits: clicks in a real Kafka become rows of a real PostgreSQL, each visit once."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench._kafka_broker import NoJars, shared_broker
from tests.integration.transactional.database_servers import PostgresServer
from tupletree.testing import LocalCluster, wait_until

BLOCKS = 3


@pytest.fixture
def postgres() -> Iterator[str]:
    if reason := PostgresServer.missing():
        pytest.skip(reason)
    server = PostgresServer()
    try:
        server.start()
        yield server.url
    finally:
        server.close()


@pytest.mark.long
def test_each_visit_is_in_the_table_once(postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        broker = shared_broker()
    except NoJars as error:
        pytest.skip(str(error))
    broker.create("clicks")
    values = {"KAFKA": broker.addresses, "POSTGRES_URL": postgres, "STATES": str(tmp_path / "states")}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    example = importlib.reload(importlib.import_module("examples.stream_sessions"))
    producer = broker.producer()
    producer.produce("clicks", b'{"user": "user0", "at": "now", "page": "/"}')
    producer.flush()
    example.put_clicks(600 * BLOCKS)
    truth = []
    for block in range(BLOCKS - 1):  # the last visits are not over
        for user in range(10):
            start_ms = 1000 * (1_795_000_000 + user + (600 + 3600) * block)
            truth.append((f"user{user}", start_ms, start_ms + 590_000 + 1_800_000, 60))

    def rows() -> list[Any]:
        with psycopg.connect(postgres) as database:
            found = database.execute("SELECT to_regclass('visits')").fetchone()
            if found is None or found[0] is None:
                return []
            return database.execute('SELECT "user", start, "end", pages FROM visits').fetchall()

    with LocalCluster() as cluster:
        cluster.submit("visits", *example.topology())
        wait_until(lambda: len(rows()) >= len(truth), 90, what="all visits that are over are in the table")
        errors = [str(error) for component, error in cluster.errors("visits") if component == "clicks"]
    assert sorted(rows()) == sorted(truth)
    assert len(errors) == 1 and "a user and a time in milliseconds were expected, not 'user0' and 'now'" in errors[0]
