"""PostgreSQL changes into Redis: a hash for each row of a table, which follows the table.

    pip install 'tupletree[postgres,redis]'
    export POSTGRES_URL=postgresql://postgres@localhost/postgres REDIS_URL=redis://localhost:6379/0    # everywhere
    psql "$POSTGRES_URL" -c "ALTER SYSTEM SET wal_level = logical"    # and restart PostgreSQL, unless it was so already
    python -m examples.postgres_changes_to_redis 1000       # creates the table towns, a publication and 1,000 rows
    tupletree local examples/postgres_changes_to_redis.py --seconds 0   # until Ctrl-C; another terminal:
    psql "$POSTGRES_URL" -c "UPDATE towns SET people = people + 1 WHERE id = 7"
    redis-cli HGETALL towns:7

POSTGRES_URL is the database, with a user who may do all of this, REDIS_URL the server of Redis. The rows that exist
come first. Each change comes at least once, and a change that failed comes behind later ones: so each hash has the
sequence of its last change, and a script in Redis ignores older ones. A deleted row leaves its sequence for a day. A
large value (from some 2 kB on) that an update left alone is missing in its change, and then in the hash.

When the topology is gone, drop its slot, or the database keeps every change for it:

    psql "$POSTGRES_URL" -c "SELECT pg_drop_replication_slot('towns_to_redis')"
"""

import os
import sys
from typing import Any

import psycopg
import redis

from tupletree import BasicBolt, FailedException, ReportedFailedException, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.connectors.postgres_changes import PostgresChangesSpout

POSTGRES_URL = os.environ.get("POSTGRES_URL", "postgresql://localhost/postgres")
REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
SLOT = "towns_to_redis"

# Numbers of Redis scripts are floats: a sequence is compared as text of one length.
APPLY = """
if ARGV[1] < (redis.call('HGET', KEYS[1], '_sequence') or '') then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '_sequence', unpack(ARGV))
if #ARGV == 1 then redis.call('EXPIRE', KEYS[1], 86400) end
return 1
"""


class Copy(BasicBolt):
    """Writes the row of each change to a hash."""

    def setup(self) -> None:
        self.client = redis.Redis.from_url(REDIS_URL)  # pyright: ignore[reportUnknownMemberType]
        self.apply = self.client.register_script(APPLY)

    def teardown(self) -> None:
        self.client.close()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if tup["operation"] == "truncate":
            raise FailedException("TRUNCATE is not copied: delete the rows", retry=False)
        key, new, old = tup["key"], tup["new"], tup["old"]
        try:
            if old is not None and old["id"] != key["id"]:
                self.write(old["id"], tup["sequence"], None)
            self.write(key["id"], tup["sequence"], new)
        except redis.RedisError as error:
            raise ReportedFailedException(f"Redis: {error}") from error

    def write(self, id: int, sequence: int, row: dict[str, Any] | None) -> None:
        values = [str(part) for pair in (row or {}).items() for part in pair]
        self.apply(keys=[f"towns:{id}"], args=[f"{sequence:030}", *values])


def topology() -> Topology:
    builder = TopologyBuilder()
    changes = builder.set_spout("changes", PostgresChangesSpout(POSTGRES_URL, "towns", SLOT, metadata=["sequence"]))
    builder.set_bolt("copy", Copy(), parallelism=2).fields_grouping(changes, "key")
    return builder.create_topology()


def create_towns(count: int) -> None:
    """Create the table and its publication, and put rows into it."""
    with psycopg.connect(POSTGRES_URL) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS towns (id int PRIMARY KEY, name text, people int)")
        if connection.execute("SELECT FROM pg_publication WHERE pubname = 'towns'").fetchone() is None:
            connection.execute("CREATE PUBLICATION towns FOR TABLE towns")
        connection.execute(
            "INSERT INTO towns SELECT id, 'town ' || id, 1000 FROM generate_series(1, %s::int) AS id "
            "ON CONFLICT (id) DO UPDATE SET people = towns.people + 1",
            [count],
        )


if __name__ == "__main__":
    create_towns(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
