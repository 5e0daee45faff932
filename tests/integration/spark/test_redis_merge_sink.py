"""The script that commits to Redis, on a real Redis and without Spark: rows are staged as its tasks do it."""

from __future__ import annotations

import copy
import math
import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis

from tests.integration.transactional.database_servers import RedisServer
from tupletree._sinks.redis_values import checked_columns
from tupletree._stores.redis import RedisAddress
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.sink import SinkScope
from tupletree.spark.sinks.redis import RedisHashes, Staged, Stager

RULES = {"n": "add", "d": "add", "low": "min", "high": "max", "last": "replace"}
TYPES = [("k", "string"), ("n", "long"), ("d", "double"), ("low", "long"), ("high", "string"), ("last", "double")]
MOST = 2**63 - 1


@pytest.fixture(scope="module")
def merge_server() -> Iterator[RedisServer]:
    if reason := RedisServer.missing():
        pytest.skip(reason)
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


class Hashes:
    """A prefix of its own."""

    def __init__(self, url: str) -> None:
        self.prefix = f"test-{uuid.uuid4().hex[:12]}"
        self.client = redis.Redis.from_url(url, decode_responses=True)
        self._address = RedisAddress("RedisHashes", url, 30)
        rules = {rule: [name for name in RULES if RULES[name] == rule] for rule in set(RULES.values())}
        self.sink = RedisHashes(url, self.prefix, "k", **rules)
        self.open(is_opaque=True)

    def open(self, *, is_opaque: bool) -> None:
        self.sink.open(SinkScope("pipeline", is_opaque, None))  # type: ignore[arg-type]

    def stage(self, attempt: TransactionAttempt, *tasks: Sequence[Sequence[Any]]) -> Staged:
        """As the tasks of a job do; a row is ``[k, n, d, low, high, last]``."""
        columns = checked_columns("sink", ["k"], self.sink.rules, TYPES)
        order = ["k", *(column.name for column in columns)]
        kinds = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in TYPES])
        start = f"{self.prefix}#staged:{attempt.txid}.{attempt.attempt}:"
        keys = []
        for rows in tasks:
            arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema).select(order)
            for done in Stager(self._address, f"{self.prefix}#staged", start, 1)(iter([batch])):
                keys += [(row["name"], row["parts"]) for row in done.to_pylist()]
        return Staged(columns, keys)

    def run(self, txid: int, number: int, *rows: Sequence[Any]) -> None:
        attempt = TransactionAttempt(txid, number)
        self.sink.commit(attempt, self.stage(attempt, rows))

    def read(self) -> dict[str, dict[str, str]]:
        return {name.split(":")[1]: self.client.hgetall(name) for name in self.client.keys(f"{self.prefix}:*")}


@pytest.fixture
def hashes(merge_server: RedisServer) -> Hashes:
    return Hashes(merge_server.url)


def test_numbers_are_exact(hashes: Hashes) -> None:
    hashes.run(1, 1, ["a", 2**53 + 1, 0.1, 2**62 + 1, None, 1e-300], ["b", -MOST, 1e-20, -MOST, None, None])
    hashes.run(2, 2, ["a", 2**62, 0.2, 2**62, None, None], ["b", -1, 1e-36, -MOST - 1, None, math.inf])
    a, b = hashes.read()["a"], hashes.read()["b"]
    assert (int(a["n"]), float(a["d"]), int(a["low"])) == (2**62 + 2**53 + 1, 0.1 + 0.2, 2**62)
    assert (int(b["n"]), float(b["d"]), int(b["low"])) == (-MOST - 1, 1e-20 + 1e-36, -MOST - 1)
    assert ("last" in a, b["last"]) == (False, "inf")


def test_nothing_but_what_the_job_returned_counts(hashes: Hashes) -> None:
    attempt = TransactionAttempt(1, 1)
    row = ["a", 1, None, None, None, None]
    hashes.stage(attempt, [row])  # a run of a task that Spark did not take
    hashes.sink.commit(attempt, hashes.stage(attempt, [row], [], [row]))
    assert hashes.read() == {"a": {"n": "2"}}
    assert hashes.client.keys(f"{hashes.prefix}#staged*") == []


@pytest.mark.parametrize("is_opaque", [False, True])
def test_a_value_that_cannot_be_merged_leaves_everything_as_it_was(hashes: Hashes, is_opaque: bool) -> None:
    hashes.open(is_opaque=is_opaque)
    hashes.run(1, 1, ["a", MOST, 1.5, 1, "x", 1.0], ["b", 1, 1.0, 1, "x", 1.0])
    before = hashes.read()
    rows = [["new", 1, 1.0, 1, "", 1.0], ["b", 2, 2.0, 0, "y", None], ["a", 1, 1.0, 1, "", 1.0]]
    with pytest.raises(UsageError, match=r":a' cannot take a row of transaction 2 .*overflow"):
        hashes.run(2, 2, *rows)
    assert hashes.read() == before
    hashes.client.set(f"{hashes.prefix}:c", "a string")
    with pytest.raises(UsageError, match=r":c' cannot take a row of .*WRONGTYPE"):
        hashes.run(2, 3, *rows[:2], ["c", 1, 1.0, 1, "", 1.0])
    hashes.client.delete(f"{hashes.prefix}:c")
    hashes.client.hset(f"{hashes.prefix}:b", "d", "many")
    with pytest.raises(UsageError, match=r":b' cannot take a row of .*not a number"):
        hashes.run(2, 4, *rows[:2])
    hashes.client.hset(f"{hashes.prefix}:b", "d", "1.0")
    assert hashes.read() == before
    hashes.run(2, 5, ["b", 1, None, None, None, None])
    assert hashes.read() == {"a": before["a"], "b": {"n": "2", "d": "1.0", "low": "1", "high": "x"}}


def test_opaque_a_replay_that_fails_leaves_the_state_before_the_transaction(hashes: Hashes) -> None:
    hashes.run(1, 1, ["a", MOST, None, None, None, None])
    hashes.run(2, 2, ["b", 1, None, None, None, None], ["a", -5, None, None, None, None])
    with pytest.raises(UsageError, match="overflow"):
        hashes.run(2, 3, ["b", 7, None, None, None, None], ["a", 1, None, None, None, None])
    assert hashes.read() == {"a": {"n": str(MOST)}}
    hashes.run(2, 4, ["a", -1, None, None, None, None])
    assert hashes.read() == {"a": {"n": str(MOST - 1)}}


def test_what_the_transactional_rule_wrote_cannot_be_taken_back(hashes: Hashes) -> None:
    hashes.open(is_opaque=False)
    hashes.run(1, 1, ["a", 1, None, None, None, None])
    hashes.open(is_opaque=True)
    with pytest.raises(UsageError, match="was committed while the source was not opaque"):
        hashes.run(1, 2, ["a", 1, None, None, None, None])
    hashes.run(2, 3, ["a", 1, None, None, None, None])
    assert hashes.read() == {"a": {"n": "2"}}


@pytest.mark.parametrize("seed", range(3))
def test_any_run_of_commits_and_replays_ends_with_every_transaction_once(hashes: Hashes, seed: int) -> None:
    draw = random.Random(seed)
    before: dict[str, dict[str, Any]] = {}
    number = 0
    for txid in range(1, 40):
        for _ in range(draw.choice([1, 1, 2, 3])):
            number += 1
            rows = [_row(draw) for _ in range(draw.randrange(6))]
            after = copy.deepcopy(before)
            for row in rows:
                _merge(after, row)
            hashes.run(txid, number, *rows)
            assert {key: _parsed(fields) for key, fields in hashes.read().items()} == after
        before = after


def _row(draw: random.Random) -> list[Any]:
    big = draw.randrange(-(2**56), 2**56)
    values = [big, draw.uniform(-1, 1) * 10 ** draw.randrange(-30, 30), big * 64, draw.choice(["", "Z", "a", "ä", "b"])]
    row = [draw.choice("abcdef"), *values, draw.random()]
    return [row[0], *(None if draw.random() < 0.2 else value for value in row[1:])]


def _merge(hashes: dict[str, dict[str, Any]], row: list[Any]) -> None:
    """What a row does, by the rules, in Python."""
    fields = hashes.setdefault(row[0], {})
    for (name, rule), value in zip(RULES.items(), row[1:], strict=True):
        if value is None:
            if rule == "replace":
                fields.pop(name, None)
        elif rule == "replace" or name not in fields:
            fields[name] = value
        else:
            fields[name] = {"add": lambda a, b: a + b, "min": min, "max": max}[rule](fields[name], value)
    if not fields:
        del hashes[row[0]]


def _parsed(fields: dict[str, str]) -> dict[str, Any]:
    kinds: dict[str, Any] = {"n": int, "d": float, "low": int, "high": str, "last": float}
    return {name: kinds[name](value) for name, value in fields.items()}
