"""What is particular to states in SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_places import NAMESPACE, State, StatePlace, sqlite_place

from tupletree.errors import UnavailableError, UsageError
from tupletree.state.sqlite import file_name

Opens = Callable[..., State]


@pytest.fixture
def place(tmp_path: Path) -> StatePlace:
    return sqlite_place(tmp_path)


@pytest.fixture
def path(place: StatePlace) -> Path:
    return Path(place.provider_config["directory"]) / file_name(NAMESPACE)


def test_the_name_of_a_file_is_for_people_and_no_two_are_the_same() -> None:
    names = ["words/count/0", "words/count-0", "Words/count/0", "../..", "", "x" * 500, "数/\0", "a:b*?"]
    files = {file_name(name) for name in names}
    assert len({name.lower() for name in files}) == len(names)
    assert file_name("words/count/0").startswith("words-count-0-")
    assert all(set(name) <= set("-_.") | set(map(chr, range(48, 123))) and len(name) < 110 for name in files)
    assert not any(name.startswith("..") for name in files)


def test_a_file_that_is_away_is_said_to_be_and_works_when_it_is_back(opened: Opens, path: Path) -> None:
    state = opened()
    state.put("word", 1)
    state.prepare_commit(1)
    state.commit(1)
    state = opened()
    state.put("word", 2)
    hidden = path.with_suffix(".hidden")
    path.rename(hidden)
    for step in (lambda: state.prepare_commit(2), lambda: state.get("other"), lambda: list(state.items())):
        with pytest.raises(UnavailableError, match="was deleted or replaced while it was in use"):
            step()
    hidden.rename(path)
    state.prepare_commit(2)
    state.commit(2)
    assert dict(opened().items()) == {"word": 2}


def test_a_file_that_another_has_locked_is_said_to_be(opened: Opens, path: Path) -> None:
    state = opened(busy_timeout_s=0.05)
    state.put("word", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for step in (lambda: state.prepare_commit(1), state.rollback, lambda: opened(busy_timeout_s=0.05)):
        with pytest.raises(UnavailableError, match="database is locked"):
            step()
    other.execute("ROLLBACK")
    other.close()
    state.prepare_commit(1)
    state.commit(1)
    assert dict(opened().items()) == {"word": 1}


def test_a_full_disk_is_said_and_changes_nothing(opened: Opens) -> None:
    state: Any = opened()
    state.put("word", 1)
    state.prepare_commit(1)
    state.commit(1)
    connection = state._backend._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    state.put("long", "x" * 1_000_000)
    with pytest.raises(UnavailableError, match="database or disk is full"):
        state.prepare_commit(2)
    assert (state.committed, state.prepared) == (1, None)
    connection.execute("PRAGMA max_page_count = 1000000")
    state.prepare_commit(2)
    state.commit(2)
    assert opened().get("word") == 1


def test_a_value_longer_than_sqlite_takes_is_a_mistake(opened: Opens) -> None:
    state: Any = opened()
    state._backend._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000)
    state.put("word", "x" * 1_000)
    with pytest.raises(UsageError, match="state 'words/count/0': a value is larger than SQLite allows"):
        state.prepare_commit(1)
    state.put("word", "x")
    state.prepare_commit(1)


def test_a_file_that_is_no_database_is_a_mistake(opened: Opens, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("no database, but long enough to be taken for one" * 100)
    with pytest.raises(UsageError, match="is not an SQLite file"):
        opened()


def test_a_file_of_another_namespace_or_a_newer_version_is_refused(opened: Opens, path: Path) -> None:
    opened().close()
    for change, sentence in (
        ("UPDATE namespace SET name = 'other'", "holds the state 'other', not 'words/count/0'"),
        ("UPDATE namespace SET format = 2", "has format 2, .* formats up to 1: a newer version has written it"),
    ):
        with sqlite3.connect(path) as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(UsageError, match=sentence):
            opened()


def test_a_directory_that_cannot_be_made_is_said(opened: Opens, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="Not a directory"):
        opened(directory=str(tmp_path / "file" / "states"))


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
def test_it_is_as_durable_as_it_is_told_to_be(opened: Opens, synchronous: str, level: int) -> None:
    state: Any = opened(synchronous=synchronous)
    connection = state._backend._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
