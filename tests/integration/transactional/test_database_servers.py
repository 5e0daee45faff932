"""Databases with a server: it is restarted, away, stands still or is full; and what other programs see in it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from database_places import PostgresPlace, RedisPlace, ServerPlace

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.transactional.databases import Database, PostgresDatabase, RedisDatabase
from tupletree.transactional.databases.contract import Changes, Row, View
from tupletree.transactional.maps import OpaqueMap, TransactionalMap

A = TransactionAttempt
SERVERS = pytest.mark.parametrize("place", ["redis", "postgres"], indirect=True)
REDIS = pytest.mark.parametrize("place", ["redis"], indirect=True)
POSTGRES = pytest.mark.parametrize("place", ["postgres"], indirect=True)


def increment(key: str, then: Callable[[], object] = lambda: None) -> Callable[[View], Changes]:
    def decide(view: View) -> Changes:
        row = view.rows([key]).get(key, Row(0, 0))
        then()
        return Changes({key: Row(row.txid + 1, row.value + 1)})

    return decide


@SERVERS
def test_a_restarted_server_is_connected_again_unnoticed(place: ServerPlace) -> None:
    database = place.open()
    together = threading.Barrier(3)
    readers = [threading.Thread(target=lambda: database.apply("words", wait_for(together))) for _ in range(3)]
    database.apply("words", increment("a"))
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    place.server.stop()
    place.server.start()
    assert database.read("words") == {"a": Row(1, 1)}
    database.apply("words", increment("a"))
    place.server.stop()
    place.server.start()
    database.apply("words", increment("a"))
    assert database.read("words") == {"a": Row(3, 3)}


def wait_for(together: threading.Barrier) -> Callable[[View], Changes]:
    """A decision that needs several connections to be open at once."""

    def decide(view: View) -> Changes:
        together.wait(20)
        return Changes()

    return decide


@SERVERS
def test_a_server_that_is_away_is_unavailable_until_it_is_back(place: ServerPlace) -> None:
    counts = OpaqueMap(place.open(), "words")
    counts.add(A(1, 1), {"a": 1})
    place.server.stop()
    try:
        for _ in range(2):
            with pytest.raises(UnavailableError, match=f"at {place.server.directory}"):
                counts.add(A(2, 2), {"a": 1})
            with pytest.raises(UnavailableError):
                counts.items()
    finally:
        place.server.start()
    assert counts.add(A(2, 3), {"a": 1}) == {"a": 2}


@pytest.mark.long
@SERVERS
def test_a_server_that_stands_still_is_unavailable_until_it_goes_on(place: ServerPlace) -> None:
    counts = OpaqueMap(place.open(timeout_s=0.3), "words")
    counts.add(A(1, 1), {"a": 1})
    stopped = place.server.processes()
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError):
            counts.add(A(2, 2), {"a": 1})
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert wait_until(lambda: add_if_available(counts), 20) == {"a": 2}


def add_if_available(counts: OpaqueMap) -> dict[str, Any] | None:
    """While the server wakes up, what was asked of it before may still hold a lock."""
    try:
        return counts.add(A(2, 3), {"a": 1})
    except UnavailableError:
        return None


@pytest.mark.parametrize(
    "database",
    [RedisDatabase("redis://:secret@127.0.0.1:1/0"), PostgresDatabase("postgresql://me:secret@127.0.0.1:1/values")],
    ids=["redis", "postgres"],
)
def test_nobody_there_is_said_without_the_password(database: Database) -> None:
    with pytest.raises(UnavailableError, match=r"at 127\.0\.0\.1:1") as caught:
        database.read("words")
    assert "secret" not in f"{caught.value} {database!r}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RedisDatabase("localhost:6379"), r"RedisDatabase: .*scheme"),
        (lambda: PostgresDatabase("postgresql://host:port:1/x y"), r"PostgresDatabase: "),
        (lambda: PostgresDatabase("host=a nonsense=b"), r"PostgresDatabase: .*nonsense"),
    ],
)
def test_an_address_that_is_none_is_refused_at_once(make: Callable[[], Database], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize(
    ("package", "extra", "database"),
    [
        ("redis", "redis", RedisDatabase("redis://127.0.0.1:1")),
        ("psycopg", "postgres", PostgresDatabase("postgresql://127.0.0.1:1/values")),
    ],
    ids=["redis", "postgres"],
)
def test_a_missing_client_library_is_named_with_its_extra(package: str, extra: str, database: Database) -> None:
    script = (
        f"import pickle, sys; sys.modules[{package!r}] = None\n"
        f"pickle.loads(bytes.fromhex({pickle.dumps(database).hex()!r})).read('words')"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"needs the package {package}: pip install 'tupletree[{extra}]'" in run.stderr.splitlines()[-1]


@SERVERS
def test_changes_of_other_keys_neither_wait_for_each_other_nor_decide_again(place: ServerPlace) -> None:
    database = place.open(timeout_s=2)
    counts = OpaqueMap(database, "words")
    counts.add(A(1, 1), {"a": 1, "b": 1})
    counts.add(A(2, 2), {})
    seen = []

    def meanwhile(old: int) -> int:
        seen.append(counts.add(A(2, 2), {"b": 10, "new": 10}))
        return old + 1

    assert counts.update(A(2, 2), {"a": meanwhile}) == {"a": 2}
    assert seen == [{"b": 11, "new": 10}]
    assert counts.items() == {"a": 2, "b": 11, "new": 10}


@REDIS
def test_redis_a_change_of_the_same_key_makes_it_decide_again(place: RedisPlace) -> None:
    database = place.open()
    rivals = [increment("a"), increment("a")]
    database.apply("words", increment("a", lambda: rivals and database.apply("words", rivals.pop())))
    assert database.read("words") == {"a": Row(3, 3)}


@REDIS
def test_redis_a_change_of_the_mark_makes_it_decide_again(place: RedisPlace) -> None:
    database = place.open()
    replays = [A(1, 2)]
    seen: list[Any] = []

    def decide(view: View) -> Changes:
        seen.append(view.mark())
        if replays:
            database.apply("words", lambda view: Changes({"b": Row(1, 1)}, mark=replays.pop()))
        if view.rows(["b"]) and seen[-1] is None:
            raise AssertionError("a row of an attempt whose mark was not seen")
        return Changes({"a": Row(1, 1)})

    database.apply("words", decide)
    assert seen == [None, A(1, 2)]


@REDIS
def test_redis_a_new_row_of_a_transaction_makes_it_decide_again(place: RedisPlace) -> None:
    database = place.open()
    rivals = [increment("b")]

    def decide(view: View) -> Changes:
        found = set(view.rows_of(1))
        if rivals:
            database.apply("words", rivals.pop())
        return Changes(deletes=found)

    database.apply("words", increment("a"))
    database.apply("words", decide)
    assert database.read("words") == {}


@REDIS
def test_redis_that_is_full_is_unavailable_and_nothing_is_written(place: RedisPlace) -> None:
    counts = OpaqueMap(place.open(), "words")
    counts.add(A(1, 1), {"a": 1})
    with redis.Redis.from_url(place.url) as client:
        client.config_set("maxmemory", "1")
        try:
            with pytest.raises(UnavailableError, match="used memory > 'maxmemory'"):
                counts.add(A(2, 2), {"a": 1, "b": 1})
        finally:
            client.config_set("maxmemory", "0")
    assert counts.items() == {"a": 1}
    assert counts.add(A(2, 3), {"b": 1}) == {"b": 1}


@REDIS
def test_redis_that_may_forget_is_warned_of_once(place: RedisPlace, caplog: pytest.LogCaptureFixture) -> None:
    place.open(timeout_s=4).read("words")
    assert not caplog.records
    with redis.Redis.from_url(place.url) as client:
        client.config_set("appendfsync", "everysec")
        try:
            for _ in range(2):
                place.open(timeout_s=5).read("words")
        finally:
            client.config_set("appendfsync", "always")
    assert ["appendfsync always" in record.message for record in caplog.records] == [True]


@REDIS
def test_redis_rows_are_json_for_other_programs(place: RedisPlace) -> None:
    counts = OpaqueMap(place.open(), "words")
    counts.add(A(1, 1), {"a": 1})
    counts.add(A(2, 2), {"a": 1, "b": 1})
    with redis.Redis.from_url(place.url, decode_responses=True) as client:
        name = f"{place.prefix}:words"
        rows = {key: json.loads(row) for key, row in client.hgetall(name).items()}
        assert client.zrange(f"{name}:txids", 0, -1, withscores=True) == [("a", 2), ("b", 2)]
        assert client.hgetall(f"{name}:about") == {"format": "1", "mark": "2 2", "version": "2"}
    assert rows == {"a": {"txid": 2, "value": 2, "previous": 1}, "b": {"txid": 2, "value": 1}}


@POSTGRES
def test_postgres_values_are_jsonb_for_other_programs(place: PostgresPlace) -> None:
    values = OpaqueMap(place.open(), "words")
    values.update(A(1, 1), {"a": lambda old: {"count": 1}})
    values.update(A(2, 2), {"a": lambda old: {"count": 2}})
    with psycopg.connect(place.url) as connection:
        counts = connection.execute("SELECT (value->'count')::int, (previous->'count')::int, txid FROM words")
        assert counts.fetchall() == [(2, 1, 2)]
        indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'words'").fetchall()
        assert any("(txid)" in definition for (definition,) in indexes)


@POSTGRES
def test_postgres_a_row_that_somebody_else_has_locked_is_unavailable(place: PostgresPlace) -> None:
    counts = TransactionalMap(place.open(timeout_s=0.3), "words")
    counts.add(A(1, 1), {"a": 1})
    with psycopg.connect(place.url) as connection:
        connection.execute("SELECT * FROM words FOR UPDATE")
        with pytest.raises(UnavailableError, match="lock timeout"):
            counts.add(A(2, 2), {"a": 1})
        assert counts.items() == {"a": 1}
    assert counts.add(A(2, 3), {"a": 1}) == {"a": 2}


@POSTGRES
def test_postgres_a_row_that_appears_meanwhile_makes_it_decide_again(place: PostgresPlace) -> None:
    database = place.open()
    database.apply("words", increment("b"))
    rivals = [increment("a")]
    database.apply("words", increment("a", lambda: rivals and database.apply("words", rivals.pop())))
    assert database.read("words", ["a"]) == {"a": Row(2, 2)}


@POSTGRES
def test_postgres_a_character_that_jsonb_does_not_take_is_a_mistake(place: PostgresPlace) -> None:
    with pytest.raises(UsageError, match="table 'words': unsupported Unicode escape sequence"):
        TransactionalMap(place.open(), "words").update(A(1, 1), {"a": lambda old: "\0"})


@POSTGRES
def test_postgres_a_user_who_may_not_make_tables_is_told_so(place: PostgresPlace) -> None:
    with psycopg.connect(place.url) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
    with pytest.raises(UsageError, match=r"permission denied|no schema has been selected"):
        PostgresDatabase(place.url.replace("tupletree@", "reader@")).read("words")


OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import database_servers
server = getattr(database_servers, sys.argv[2])()
server.start()
print(server.directory, *server.processes(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["RedisServer", "PostgresServer"])
def test_the_servers_of_these_tests_end_with_them(kind: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue({"RedisServer": "redis_server", "PostgresServer": "postgres_server"}[kind])
    here = str(Path(__file__).parent)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, here, kind], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory, *processes = owner.stdout.readline().split()
    owner.kill()
    owner.communicate()
    wait_until(lambda: not any(is_alive(int(process)) for process in processes), 20)
    wait_until(lambda: not Path(directory).exists(), 20)


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False
