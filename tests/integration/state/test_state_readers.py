"""What every reader of committed values does, whoever provides it, and what the writer notices of it: nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from state_places import KEYS, NAMESPACE, State, StatePlace, checkpoint

from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import UnavailableError, UsageError
from tupletree.state import PostgresStateProvider, postgres_reader, sqlite_reader
from tupletree.state.reader import StateReader
from tupletree.state.sizes import MAX_LARGEST, SizePrecision, StateSize

Opens = Callable[..., State]

BUILT_IN = ["memory", "sqlite", "rocksdb", "objects", "postgres", "redis", "zookeeper"]


@pytest.fixture(params=BUILT_IN)
def place(request: pytest.FixtureRequest, place_of: Callable[[str], StatePlace]) -> StatePlace:
    return place_of(request.param)


@pytest.fixture
def reader_of(place: StatePlace, opened: Opens) -> Iterator[Callable[..., StateReader]]:
    """Opens readers, which are closed at the end of the test."""
    with ExitStack() as stack:

        def open_one(namespace: str = NAMESPACE) -> StateReader:
            reader = place.reader(namespace)
            stack.callback(reader.close)
            return reader

        yield open_one


@pytest.fixture
def reader(reader_of: Callable[..., StateReader]) -> StateReader:
    return reader_of()


def value(reader: StateReader, key: Any) -> Any:
    found = reader.get(encode_value(key))
    return None if found is None else decode_value(found)


def everything(reader: StateReader) -> dict[Any, Any]:
    return {decode_value(key): decode_value(data) for key, data in reader.scan(b"", 1_000_000, 1 << 40)}


def test_a_namespace_that_nobody_has_opened_is_empty_and_stays_so(
    reader: StateReader, opened: Opens, place: StatePlace
) -> None:
    assert (reader.committed, reader.get(encode_value("word")), reader.scan(b"", 10, 1000)) == (None, None, [])
    assert "directory" not in place.provider_config or not Path(place.provider_config["directory"]).exists()
    state = opened()
    assert (state.committed, state.prepared) == (None, None)
    assert (reader.committed, reader.scan(b"", 10, 1000)) == (None, [])


def test_only_what_is_committed_is_read(reader: StateReader, opened: Opens) -> None:
    state = opened()
    for number, key in enumerate(KEYS):
        state.put(key, number)
    state.put("deleted", 1)
    assert (reader.committed, everything(reader)) == (None, {})
    state.prepare_commit(1)
    assert (reader.committed, everything(reader)) == (None, {})
    state.commit(1)
    state.put("word", 99)
    state.delete("deleted")
    committed = {**{key: number for number, key in enumerate(KEYS)}, "deleted": 1}
    assert (reader.committed, everything(reader)) == (1, committed)
    assert [value(reader, key) for key in KEYS] == list(range(len(KEYS)))
    state.prepare_commit(2)
    assert (reader.committed, everything(reader)) == (1, committed)
    state.commit(2)
    assert (reader.committed, value(reader, "word"), value(reader, "deleted")) == (2, 99, None)
    assert everything(reader) == {**{key: number for number, key in enumerate(KEYS)}, "word": 99}


def test_the_writer_stays_the_writer_and_finds_nothing_changed(
    reader_of: Callable[..., StateReader], opened: Opens
) -> None:
    state = opened()
    for txid in range(1, 6):
        state.put("word", txid)
        assert everything(reader_of()) == ({"word": txid - 1} if txid > 1 else {})
        state.prepare_commit(txid)
        assert reader_of().committed == (txid - 1 or None)
        state.commit(txid)
    state.put("word", 6)
    state.prepare_commit(6)
    assert value(reader_of(), "word") == 5
    again = opened()
    assert (again.committed, again.prepared) == (5, 6)
    again.commit(6)
    assert value(reader_of(), "word") == 6


def test_values_of_a_closed_state_are_read(reader_of: Callable[..., StateReader], place: StatePlace) -> None:
    state = place.open()
    state.put("word", 1)
    checkpoint(state, 7)
    state.close()
    reader = reader_of()
    assert (reader.committed, everything(reader)) == (7, {"word": 1})
    assert everything(reader_of("words/count/1")) == {}


def test_pages_in_the_order_of_the_keys_hold_everything_once(reader: StateReader, opened: Opens) -> None:
    state = opened()
    keys = [*KEYS, *range(100, 400), *(f"word {number}" for number in range(300))]
    for key in keys:
        state.put(key, "v")
    checkpoint(state, 1)
    found: list[bytes] = []
    while page := reader.scan(found[-1] if found else b"", 37, 1 << 40):
        assert len(page) <= 37
        found += [key for key, _ in page]
    assert found == sorted(map(encode_value, keys))


def test_a_page_ends_when_it_has_the_bytes_but_has_an_entry(reader: StateReader, opened: Opens) -> None:
    state = opened()
    for number in range(8):
        state.put(number, b"x" * 10_000)
    checkpoint(state, 1)
    assert [decode_value(key) for key, _ in reader.scan(b"", 100, 25_000)] == [0, 1, 2]
    assert [decode_value(key) for key, _ in reader.scan(encode_value(2), 100, 1)] == [3]
    assert [decode_value(key) for key, _ in reader.scan(encode_value(5), 100, 1 << 40)] == [6, 7]


def test_the_size_is_that_of_the_committed_entries(
    reader_of: Callable[..., StateReader], opened: Opens, place: StatePlace
) -> None:
    assert reader_of().size() == StateSize(0, 0)
    state = opened()
    for number in range(2500):
        state.put(number, b"x" * 10)
    assert reader_of().size() == StateSize(0, 0)
    checkpoint(state, 1)
    state.put("not committed", 1)
    whole = sum(len(key) + len(value) for key, value in reader_of().scan(b"", 10_000, 1 << 40))
    assert reader_of().size() == StateSize(2500, whole)
    assert len({one.key for one in reader_of().size().largest}) == MAX_LARGEST
    state.rollback()
    state.put(7, b"x" * 300)
    state.put(8, b"x" * 200)
    checkpoint(state, 2)
    assert [decode_value(one.key) for one in reader_of().size().largest[:2]] == [7, 8]
    assert reader_of().size().largest[0].size == len(encode_value(7)) + len(encode_value(b"x" * 300))
    state.put(7, b"x" * 10)
    state.put(8, b"x" * 10)
    state.delete(5)
    checkpoint(state, 3)
    assert reader_of().size() == StateSize(2499, whole - len(encode_value(5)) - len(encode_value(b"x" * 10)))
    assert reader_of("words/count/1").size() == StateSize(0, 0)


@pytest.mark.parametrize("place", [one for one in BUILT_IN if one != "zookeeper"], indirect=True)  # whose are small
def test_of_a_large_state_some_entries_are_counted(
    reader: StateReader, opened: Opens, place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened()
    for number in range(20_000):
        state.put(number, b"x" * 100)
    checkpoint(state, 1)
    whole = sum(len(key) + len(value) for key, value in reader.scan(b"", 100_000, 1 << 40))
    for module in (sqlite_reader, postgres_reader):
        monkeypatch.setattr(module, "_MAX_ROWS", 5_000)
    found = reader.size()
    if isinstance(place.provider, PostgresStateProvider):
        assert (found.precision, found.keys) == (SizePrecision.AT_LEAST, 5_000)
        assert found.bytes < whole
    else:
        assert found.precision is SizePrecision.ABOUT
        assert 0.9 * 20_000 < found.keys < 1.5 * 20_000
        assert 0.9 * whole < found.bytes < 1.5 * whole


def test_a_provider_that_cannot_be_read_says_so(place_of: Callable[[str], StatePlace]) -> None:
    with pytest.raises(UsageError, match="OwnStateProvider cannot be read from outside: the class does not implement"):
        place_of("own").reader()


# Redis: a commit of many chunks takes many steps, and may be interrupted between any two of them.


def test_a_commit_that_is_half_done_is_read_as_done(
    place_of: Callable[[str], StatePlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tupletree.state.redis.CHUNK_ENTRIES", 3)
    place = place_of("redis")
    state: Any = place.open()
    for number in range(20):
        state.put(number, "old")
    checkpoint(state, 1)
    for number in range(10):
        state.put(number, "new")
    for number in range(10, 15):
        state.delete(number)
    state.put(20, "new")
    state.prepare_commit(2)
    backend = state._backend
    moves = backend._move
    expected = {**dict.fromkeys(range(10), "new"), **dict.fromkeys(range(15, 20), "old"), 20: "new"}
    seen = []

    def move_and_read() -> None:
        for chunk in [None, *backend._unmoved]:
            if chunk is not None:
                backend._write(redis_scripts.MOVE, chunk)
            reader = place.reader()
            seen.append((reader.committed, everything(reader), value(reader, 9), value(reader, 14), value(reader, 20)))
            assert [len(page) for page in (reader.scan(b"", 7, 1 << 40), reader.scan(encode_value(9), 3, 1 << 40))] == [
                7,
                3,
            ]
        backend._unmoved = []

    from tupletree.state import redis_scripts

    backend._move = move_and_read
    state.commit(2)
    backend._move = moves
    assert len(seen) > 4
    assert seen == [(2, expected, "new", None, "new")] * len(seen)
    state.close()


def test_a_page_misses_nothing_of_a_commit_that_is_completed_meanwhile(
    place_of: Callable[[str], StatePlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tupletree.state.redis.CHUNK_ENTRIES", 100)
    place = place_of("redis")
    state: Any = place.open()
    for number in range(2_000):
        state.put(number, "old")
    checkpoint(state, 1)
    for number in range(1_000):
        state.delete(number)
        state.put(2_000 + number, "new")
    state.prepare_commit(2)
    backend = state._backend
    complete, reader = backend._move, place.reader()
    first_page = reader._page

    def page_and_complete(cursor: int, pipe: Any) -> None:
        if cursor:
            complete()
        first_page(cursor, pipe)

    def read_meanwhile() -> None:
        reader._page = page_and_complete
        assert everything(reader) == {number: "old" if number < 2_000 else "new" for number in range(1_000, 3_000)}
        assert backend._unmoved == []

    backend._move = read_meanwhile
    state.commit(2)
    backend._move = complete
    state.close()


# SQLite: files that a killed process left behind, and what a reader may do to them.

WRITER = """
import os, signal, sys
from types import SimpleNamespace
from tupletree.state import SqliteStateProvider
context = SimpleNamespace(conf={})
state = SqliteStateProvider().new_state("words/count/0", {"directory": sys.argv[1]}, context)
state.put("word", 5)
state.prepare_commit(3)
state.commit(3)
state.put("word", 6)
state.prepare_commit(4)
print("done", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_whose_writer_was_killed_is_read(place_of: Callable[[str], StatePlace]) -> None:
    place = place_of("sqlite")
    directory = Path(place.provider_config["directory"])
    ended = subprocess.run([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"done\n")
    reader = place.reader()
    assert (reader.committed, everything(reader)) == (3, {"word": 5})
    state = place.open()
    assert (state.committed, state.prepared) == (3, 4)
    state.close()


def test_a_file_that_nobody_has_open_is_read_without_a_trace(place_of: Callable[[str], StatePlace]) -> None:
    place = place_of("sqlite")
    state = place.open()
    state.put("word", 1)
    checkpoint(state, 1)
    state.close()
    directory = Path(place.provider_config["directory"])
    directory.chmod(0o500)
    try:
        assert everything(place.reader()) == {"word": 1}
        assert [path.suffix for path in directory.iterdir()] == [".db"]
    finally:
        directory.chmod(0o700)


def test_a_reader_in_a_long_read_does_not_hold_up_the_writer(place_of: Callable[[str], StatePlace]) -> None:
    place = place_of("sqlite")
    state = place.open(busy_timeout_s=0.05)
    state.put("word", 1)
    checkpoint(state, 1)
    reader: Any = place.reader()
    with sqlite3.connect(f"file:{reader._path}?mode=ro", uri=True, isolation_level=None) as connection:
        connection.execute("BEGIN")
        assert connection.execute("SELECT committed FROM namespace").fetchone() == (1,)
        state.put("word", 2)
        checkpoint(state, 2)
        assert connection.execute("SELECT committed FROM namespace").fetchone() == (1,)
        connection.execute("COMMIT")
    connection.close()
    assert (reader.committed, value(reader, "word")) == (2, 2)
    state.close()


def test_a_file_that_is_opened_and_written_during_the_read_is_read_again(
    place_of: Callable[[str], StatePlace],
) -> None:
    place = place_of("sqlite")
    state = place.open()
    state.put("word", 1)
    checkpoint(state, 1)
    state.close()
    reader: Any = place.reader()
    opened = reader._opened
    writers: list[State] = []

    def open_late(is_static: bool) -> Any:
        connection = opened(is_static)
        assert is_static == (not writers)
        if not writers:
            connection.execute("SELECT committed FROM namespace").fetchone()
            writers.append(place.open())
            writers[0].put("word", 2)
            checkpoint(writers[0], 2)
        return connection

    reader._opened = open_late
    assert value(reader, "word") == 2
    writers[0].close()


def test_a_file_of_another_namespace_or_of_something_else_is_refused(place_of: Callable[[str], StatePlace]) -> None:
    place = place_of("sqlite")
    place.open().close()
    mine: Any = place.reader()
    other: Any = place.reader("words/count/1")
    os.rename(mine._path, other._path)
    with pytest.raises(UsageError, match="holds the state 'words/count/0', not 'words/count/1'"):
        other.committed  # noqa: B018
    Path(mine._path).write_bytes(b"no database, but long enough for the header of one" * 40)
    with pytest.raises(UsageError, match="is not an SQLite file"):
        mine.committed  # noqa: B018


def test_a_store_that_is_away_says_so(place_of: Callable[[str], StatePlace], monkeypatch: pytest.MonkeyPatch) -> None:
    redis = place_of("redis")
    redis.provider_config["url"] = "redis://127.0.0.1:1/0"
    with pytest.raises(UnavailableError, match=r"Redis at 127\.0\.0\.1:1"):
        redis.reader()
