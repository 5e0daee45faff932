"""RedisHashes with a real Spark and a real Redis."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession
from redis_places import RedisPlace
from sink_behaviours import Pipe, SinkBehaviours

from tests.integration.transactional.database_servers import RedisServer
from tupletree._sinks.redis_commits import STAGED_EXPIRES_S
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.spark.sink import SinkScope
from tupletree.spark.sinks.redis import RedisHashes


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    if reason := RedisServer.missing():
        pytest.skip(reason)
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def place(redis_server: RedisServer) -> RedisPlace:
    return RedisPlace(redis_server.url, f"test-{uuid.uuid4().hex[:12]}")


class TestRedisHashes(SinkBehaviours):
    """The behaviours, and what only Redis has."""

    def test_every_type_is_kept_exactly(self, spark: SparkSession, place: RedisPlace) -> None:
        names = ["small", "d", "text", "yes", "day", "at", "local", "money", "raw"]
        sink = RedisHashes(place.url, place.prefix, ["k", "day_of"], max=names, add=["big"])
        sink.open(SinkScope("pipeline", True, spark))
        schema = (
            "k STRING, day_of DATE, small TINYINT, d DOUBLE, text STRING, yes BOOLEAN, day DATE, at TIMESTAMP,"
            " local TIMESTAMP_NTZ, money DECIMAL(30, 2), raw BINARY, big BIGINT"
        )
        day, at, local = dt.date(2024, 5, 6), dt.datetime(2024, 5, 6, 7, tzinfo=dt.UTC), dt.datetime(2024, 5, 6, 7)
        money = Decimal("9007199254740993.10")
        low = ["a", day, 9, -2.5, "Z", False, day, at, local, money, b"\xff\x00", 2**53]
        high = ["a", day, 10, -1e-20, "a", True, dt.date(2024, 10, 1), at, local, money + 1, b"\xff\x01", 1]
        other = [None, None, *[None] * 10]
        for txid, rows in enumerate([[low, other], [high, low, other]], 1):
            attempt = TransactionAttempt(txid, txid)
            sink.commit(attempt, sink.stage(attempt, spark.createDataFrame(rows, schema)))
        assert place.client(decode_responses=False).hgetall(sink.hash_name("a", day)) == {
            b"small": b"10",
            b"d": b"-1e-20",
            b"text": b"a",
            b"yes": b"true",
            b"day": b"2024-10-01",
            b"at": b"2024-05-06T07:00:00.000000Z",
            b"local": b"2024-05-06T07:00:00.000000",
            b"money": b"9007199254740994.10",
            b"raw": b"\xff\x01",
            b"big": str(2**54 + 1).encode(),
        }
        assert not place.client().exists(sink.hash_name(None, None))

    def test_names_of_columns_are_free(self, spark: SparkSession, place: RedisPlace) -> None:
        sink = RedisHashes(place.url, place.prefix, "a.b", replace=["`c` d"])
        sink.open(SinkScope("pipeline", False, spark))
        attempt = TransactionAttempt(1, 1)
        sink.commit(attempt, sink.stage(attempt, spark.createDataFrame([(1, 2)], ["a.b", "`c` d"])))
        assert place.client().hgetall(sink.hash_name(1)) == {"`c` d": "2"}

    def test_rows_of_many_tasks_and_chunks_make_one_commit(self, spark: SparkSession, place: RedisPlace) -> None:
        pipe = Pipe(spark, place, is_opaque=True)
        numbers = spark.range(0, 40_000, 1, 8).selectExpr("CAST(id % 10000 AS STRING) AS word", "id AS n")
        attempt = TransactionAttempt(1, 1)
        pipe.sink.commit(attempt, pipe.sink.stage(attempt, numbers))
        assert place.totals() == {str(word): 4 * word + 60_000 for word in range(10_000)}
        pipe.run(1, 2, {"a": 1})
        assert place.totals() == {"a": 1}

    def test_what_is_staged_expires(self, spark: SparkSession, place: RedisPlace) -> None:
        Pipe(spark, place, is_opaque=False).stage(1, 1, {"a": 1})
        for name in [*place.staged(), f"{place.prefix}#staged"]:
            assert 0 < place.client().ttl(name) <= STAGED_EXPIRES_S

    def test_a_redis_that_goes_away_is_unavailable_and_loses_nothing(self, spark: SparkSession) -> None:
        if reason := RedisServer.missing():
            pytest.skip(reason)
        server = RedisServer()
        try:
            server.start()
            place = RedisPlace(server.url, "p")
            pipe = Pipe(spark, place, is_opaque=False)
            pipe.run(1, 1, {"a": 1})
            staged = pipe.stage(2, 2, {"a": 1})
            server.stop()
            steps: list[Any] = [
                lambda: pipe.sink.commit(*staged),
                lambda: pipe.stage(2, 3, {"a": 1}),
                lambda: Pipe(spark, place, is_opaque=False),
            ]
            for step in steps:
                with pytest.raises(UnavailableError, match=r"Redis at .*redis\.sock: "):
                    step()
            pipe.sink.discard(*staged)
            server.start()
            pipe.sink.commit(*staged)
            assert place.totals() == {"a": 2}
        finally:
            server.close()


def test_a_prefix_in_other_use_is_refused(redis_server: RedisServer, spark: SparkSession, place: RedisPlace) -> None:
    redis.Redis.from_url(redis_server.url).set(f"{place.prefix}#about", "mine")
    with pytest.raises(Exception, match="the prefix is used by another program"):
        Pipe(spark, place, is_opaque=False)
