"""The example of changes: the hashes in Redis are the table, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
import redis
from example_programs import imported_example
from postgres_changes_place import ChangesServer

from tests.integration.transactional.database_servers import RedisServer
from tupletree.testing import LocalCluster


@pytest.fixture
def urls() -> Iterator[tuple[str, str]]:
    """A PostgreSQL and a Redis of their own."""
    if reason := ChangesServer.missing() or RedisServer.missing():
        pytest.skip(reason)
    with ExitStack() as stack:
        servers = []
        for made in (ChangesServer, RedisServer):
            servers.append(made())
            stack.callback(servers[-1].close)
            servers[-1].start()
        yield servers[0].url, servers[1].url


@pytest.mark.long
def test_hashes_follow_the_table(urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    example = imported_example("postgres_changes_to_redis", monkeypatch, POSTGRES_URL=urls[0], REDIS_URL=urls[1])
    example.create_towns(200)
    client = redis.Redis.from_url(urls[1], decode_responses=True)

    def hashes() -> dict[int, tuple[str, int]]:
        found = (client.hgetall(key) for key in client.keys("towns:*"))
        return {int(row["id"]): (row["name"], int(row["people"])) for row in found if "id" in row}

    with psycopg.connect(urls[0], autocommit=True) as database, LocalCluster() as cluster:

        def rows() -> dict[int, tuple[str, int]]:
            return {id: (name, people) for id, name, people in database.execute("SELECT * FROM towns")}

        cluster.submit("towns", example.topology())
        cluster.wait_until(lambda: hashes() == rows(), 60)
        for statement in (
            "UPDATE towns SET people = people + id",
            "DELETE FROM towns WHERE id % 3 = 0",
            "UPDATE towns SET id = 1000 WHERE id = 1",
            "INSERT INTO towns SELECT id, 'new', 0 FROM generate_series(150, 250) AS id "
            "ON CONFLICT (id) DO UPDATE SET people = 1",
        ):
            database.execute(statement)
        cluster.wait_until(lambda: hashes() == rows(), 60)
        assert len(rows()) > 200
    client.close()
