"""The example of visits: clicks in a real Kafka become rows of a real PostgreSQL, each visit once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_programs import imported_example

from tests.integration.kafka_brokers import broker_or_skip
from tests.integration.transactional.database_servers import PostgresServer, running, table_rows
from tupletree.testing import LocalCluster, wait_until

BLOCKS = 3


@pytest.fixture
def postgres() -> Iterator[str]:
    with running(PostgresServer) as server:
        yield server.url


@pytest.mark.long
def test_each_visit_is_in_the_table_once(postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broker = broker_or_skip()
    broker.create("clicks")
    where = {"KAFKA": broker.addresses, "POSTGRES_URL": postgres, "STATES": str(tmp_path / "states")}
    example = imported_example("stream_sessions", monkeypatch, **where)
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
        return table_rows(postgres, "visits", 'SELECT "user", start, "end", pages FROM visits')

    with LocalCluster() as cluster:
        cluster.submit("visits", *example.topology())
        wait_until(lambda: len(rows()) >= len(truth), 90, what="all visits that are over are in the table")
        errors = [str(error) for component, error in cluster.errors("visits") if component == "clicks"]
    assert sorted(rows()) == sorted(truth)
    assert len(errors) == 1 and "a user and a time in milliseconds were expected, not 'user0' and 'now'" in errors[0]
