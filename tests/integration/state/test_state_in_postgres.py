"""What is particular to states in PostgreSQL."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from state_places import (
    NAMESPACE,
    State,
    StatePlace,
    check_that_all_goes_on_after_an_absence,
    checkpoint,
    postgres_place,
)

from tests.integration.transactional.database_servers import PostgresServer
from tupletree.errors import AuthorityError, ConfigError, UnavailableError, UsageError
from tupletree.state import postgres as postgres_module
from tupletree.testing import wait_until

Opens = Callable[..., State]


@pytest.fixture
def place(postgres_server: PostgresServer) -> StatePlace:
    return postgres_place(postgres_server)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def rows(database: psycopg.Connection[Any], place: StatePlace, table: str) -> int:
    """The number of rows in a table of the place."""
    name = sql.Identifier(place.provider_config["schema"], table)
    [count] = database.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone() or [0]
    return int(count)


def test_postgres_that_is_away_is_said_to_be_and_afterwards_all_goes_on(
    opened: Opens, postgres_server: PostgresServer
) -> None:
    away = f"PostgreSQL at {postgres_server.directory}:5432, database 'postgres': "
    check_that_all_goes_on_after_an_absence(opened, postgres_server, away)


def test_a_server_that_hangs_is_given_up_and_what_it_was_told_comes_to_one_end(
    opened: Opens, postgres_server: PostgresServer
) -> None:
    state = opened(timeout_s=0.3)
    state.put("word", 1)
    state.prepare_commit(1)
    processes = postgres_server.processes()
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError, match=r"^PostgreSQL at "):
            state.commit(1)
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)
    wait_until(lambda: _is_committed(state), 30, what="the checkpoint is committed")
    assert dict(opened().items()) == {"word": 1}


def _is_committed(state: State) -> bool:
    with suppress(UnavailableError):
        state.commit(1)
        return True
    return False


def test_a_transaction_that_hangs_on_the_row_is_said(opened: Opens, database: Any, place: StatePlace) -> None:
    state = opened(timeout_s=0.3)
    state.put("word", 1)
    states = sql.Identifier(place.provider_config["schema"], "states")
    with database.transaction():
        database.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(states))
        with pytest.raises(UnavailableError, match="lock timeout"):
            state.prepare_commit(1)
    checkpoint(state, 1)
    assert dict(opened().items()) == {"word": 1}


def test_nothing_is_left_of_what_was_prepared(
    opened: Opens, database: Any, place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "CHUNK_BYTES", 30_000)
    state = opened()
    for number in range(100):
        state.put(number, "x" * 1_000)
    state.prepare_commit(1)
    assert [rows(database, place, table) for table in ("state_entries", "state_changes")] == [0, 4]
    state.rollback()
    assert [rows(database, place, table) for table in ("state_entries", "state_changes")] == [0, 0]
    state.put("word", 1)
    checkpoint(state, 1)
    assert [rows(database, place, table) for table in ("state_entries", "state_changes")] == [1, 0]


def test_the_query_of_the_guide_shows_what_is_there(opened: Opens, database: Any) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "state-providers.md"
    [query] = re.findall(r"^```sql\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL)
    state = opened(schema="tupletree")
    state.put("word", 1)
    state.put("other", 1)
    checkpoint(state, 7)
    opened("words/count/1", schema="tupletree")
    assert database.execute(query).fetchall() == [(NAMESPACE, 7, 2), ("words/count/1", None, 0)]


def test_a_removal_in_parts_that_was_interrupted_is_ended_by_the_next(
    opened: Opens, database: Any, place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "REMOVED_AT_ONCE", 10)
    for namespace in (NAMESPACE, "words/count/1"):
        state = opened(namespace)
        for number in range(35):
            state.put(number, 1)
        checkpoint(state, 1)
        state.put("word", 1)
        state.prepare_commit(2)
    disowning = postgres_module.Tables.delete_disowned
    monkeypatch.setattr(postgres_module.Tables, "delete_disowned", lambda *_: False)  # as if it was killed here
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    monkeypatch.setattr(postgres_module.Tables, "delete_disowned", disowning)
    assert rows(database, place, "state_entries") == 70
    new = opened()
    assert (list(new.items()), new.committed, new.prepared) == ([], None, None)
    new.put("word", 2)
    checkpoint(new, 1)
    place.provider.remove_state("words/count/1", place.provider_config, place.context)
    assert [rows(database, place, table) for table in ("states", "state_entries", "state_changes")] == [1, 1, 0]
    assert dict(opened().items()) == {"word": 2}


def test_the_tables_are_made_once_however_many_open_at_the_same_time(place: StatePlace) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(8)

    def open_one(number: int) -> None:
        try:
            barrier.wait()
            state = place.open(f"words/count/{number}")
            state.put("word", number)
            checkpoint(state, 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_one, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [dict(place.open(f"words/count/{number}").items()) for number in range(8)] == [
        {"word": number} for number in range(8)
    ]


def test_a_user_without_the_right_to_make_tables_is_told_and_one_who_finds_them_needs_none(
    place: StatePlace, database: Any
) -> None:
    database.execute("DROP ROLE IF EXISTS guest")
    database.execute("CREATE ROLE guest LOGIN")
    theirs = place.provider_config["url"].replace("tupletree@", "guest@")
    with pytest.raises(UsageError, match="state 'words/count/0': permission denied for database postgres"):
        place.open(url=theirs)
    place.open().close()
    schema = sql.Identifier(place.provider_config["schema"])
    database.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO guest").format(schema))
    database.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {} TO guest").format(schema))
    state = place.open(url=theirs)
    state.put("word", 1)
    checkpoint(state, 1)
    state.close()


def test_tables_of_the_same_names_that_are_not_ours_are_a_mistake(opened: Opens, database: Any) -> None:
    database.execute("CREATE SCHEMA IF NOT EXISTS shop")
    database.execute("CREATE TABLE IF NOT EXISTS shop.states (id int, country text)")
    with pytest.raises(UsageError, match='column "name" of relation "states" does not exist'):
        opened(schema="shop")


def test_a_state_that_the_server_lost_is_not_written_to(opened: Opens, database: Any, place: StatePlace) -> None:
    state = opened()
    state.put("word", 1)
    states = sql.Identifier(place.provider_config["schema"], "states")
    database.execute(sql.SQL("DELETE FROM {}").format(states))
    with pytest.raises(AuthorityError, match="was opened again since"):
        state.prepare_commit(1)
    assert opened().committed is None


def test_what_a_newer_version_wrote_is_refused(opened: Opens, database: Any, place: StatePlace) -> None:
    opened()
    states = sql.Identifier(place.provider_config["schema"], "states")
    database.execute(sql.SQL("UPDATE {} SET format = 2").format(states))
    for step in (opened, place.reader):
        with pytest.raises(UsageError, match=r"state 'words/count/0' has format 2, .* up to 1: a newer version"):
            step()


@pytest.mark.parametrize("url", ["", "http://example.org", "host=localhost door=5432"])
def test_a_url_that_is_none_is_a_mistake(opened: Opens, url: str) -> None:
    with pytest.raises((UsageError, ConfigError)):
        opened(url=url)


def test_without_the_package_it_says_what_to_install(opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        UsageError, match=r"PostgresStateProvider needs the package psycopg: pip install 'tupletree\[postgres\]'"
    ):
        opened()


def test_keys_and_values_longer_than_postgres_takes_are_a_mistake(
    opened: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "MAX_BYTES", 3_000)
    state = opened()
    for key, value, sentence in (
        (bytes(range(256)) * 11, 1, "a key takes 2,819 bytes; PostgreSQL can index 2,600: use a digest of the key"),
        ("word", "x" * 3_000, "a key and its value take 3,008 bytes; the provider 'postgres' allows 3,000"),
    ):
        state.put(key, value)
        with pytest.raises(UsageError, match=f"^state 'words/count/0': {sentence}$"):
            state.prepare_commit(1)
        state.delete(key)
    longest = random.Random(1).randbytes(2_597)  # cannot be compressed
    state.put(longest, 1)
    checkpoint(state, 1)
    assert opened().get(longest) == 1
