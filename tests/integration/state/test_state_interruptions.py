"""Whichever of its commands fails, with its effect at once, late or never: a state comes to the same end."""

from __future__ import annotations

import errno
import itertools
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from interrupted_store import NEVER, InterruptedStore, interruptions
from state_places import State, StatePlace

from tests.integration.transactional.database_servers import PostgresServer, RedisServer
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import UnavailableError
from tupletree.state import redis as redis_module
from tupletree.state.buffered import BufferedState
from tupletree.state.postgres import PostgresBackend
from tupletree.state.redis import RedisBackend
from tupletree.state.rocksdb.backend import RocksDBBackend
from tupletree.state.zookeeper import ZooKeeperBackend

Backends = Callable[[], Any]


class InterruptedRedis:
    """A client whose command number ``at`` fails. Its effect comes after ``lateness`` further commands, or never."""

    def __init__(self, client: Any, at: int, lateness: int) -> None:
        self._client = client
        self._at = at
        self._lateness = lateness
        self._command = -1
        self._late: Callable[[], Any] = lambda: None
        self.interrupted = False

    def register_script(self, script: str) -> Callable[..., Any]:
        run = self._client.register_script(script)
        return lambda keys, args: self._operate(lambda: run(keys=keys, args=args))

    def hget(self, name: str, key: bytes) -> Any:
        return self._operate(lambda: self._client.hget(name, key))

    def pipeline(self, transaction: bool) -> Any:
        return self._client.pipeline(transaction=transaction)

    @property
    def connection_pool(self) -> Any:
        return self._client.connection_pool

    def _operate(self, work: Callable[[], Any]) -> Any:
        self._command += 1
        if self._command == self._at:
            self.interrupted = True
            self._late = work
        if self._lateness != NEVER and self._command == self._at + self._lateness:
            self._late()
        if self._command == self._at:
            raise redis.ConnectionError("the connection was lost")
        return work()


def insist(step: Callable[[], None]) -> None:
    """Do it, again if the store was away, and once more if a write that had failed came late."""
    for _ in range(2):
        try:
            return step()
        except UnavailableError:
            pass
    step()


def scenario(state: State) -> dict[Any, Any]:
    """Checkpoints, of which one is rolled back, by a caller that tries again; return what must be committed."""

    def change(txid: int) -> None:
        for number in range(7):
            state.put(number, [txid])
        state.delete(txid)

    change(1)
    insist(lambda: state.prepare_commit(1))
    state.put("after", 1)
    insist(lambda: state.commit(1))
    change(2)
    with suppress(UnavailableError):
        state.prepare_commit(2)
    insist(state.rollback)
    state.put("again", 2)
    insist(lambda: state.prepare_commit(2))
    insist(lambda: state.commit(2))
    change(3)
    insist(lambda: state.prepare_commit(3))
    state.put("lost", 3)
    try:
        state.commit(3)
    except UnavailableError:
        insist(state.rollback)
        if state.committed == 2:  # what was to be committed is gone
            change(3)
            insist(lambda: state.prepare_commit(3))
            insist(lambda: state.commit(3))
    assert (state.committed, state.prepared) == (3, None)
    expected: dict[Any, Any] = {number: [3] for number in range(7) if number != 3}
    return expected | {"again": 2}


def judge(anew: State, expected: dict[Any, Any]) -> None:
    assert (anew.committed, anew.prepared) == (3, None)
    assert dict(anew.items()) == expected
    anew.close()


def test_zookeeper_goes_on_after_any_interruption() -> None:
    for at, lateness in interruptions():
        store = MemoryStore()
        interrupted = InterruptedStore(store, at + 6, lateness)  # not the six that open it
        state: State = BufferedState("words", ZooKeeperBackend("words", interrupted, "first"))
        expected = scenario(state)
        judge(BufferedState("words", ZooKeeperBackend("words", store, "second")), expected)
        if not interrupted.interrupted:
            assert at >= 7  # a write for each step
            return


def test_redis_goes_on_after_any_interruption(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 3)
    for at, lateness in interruptions():
        namespace = uuid.uuid4().hex
        backend = RedisBackend(namespace, redis_server.url, "test", 5)
        interrupted = InterruptedRedis(backend._client, at, lateness)
        backend._client = interrupted
        expected = scenario(BufferedState(namespace, backend))
        judge(BufferedState(namespace, RedisBackend(namespace, redis_server.url, "test", 5)), expected)
        if not interrupted.interrupted:
            assert at >= 15  # two or three for each prepare and commit
            return


class LosingConnections:
    """Connections to PostgreSQL of which one is lost: at round trip ``at``, which the server has done or has not."""

    def __init__(self, at: int, is_done: bool) -> None:
        self._at = at
        self._is_done = is_done
        self._trip = -1
        self._wait = psycopg.Connection.wait

    @property
    def has_lost(self) -> bool:
        return self._trip >= self._at

    @property
    def wait(self) -> Callable[..., Any]:
        """The method of a connection that each round trip passes through."""

        def wait(connection: psycopg.Connection[Any], *arguments: Any, **named: Any) -> Any:
            self._trip += 1
            if self._trip != self._at:
                return self._wait(connection, *arguments, **named)
            if self._is_done:
                self._wait(connection, *arguments, **named)
            connection.pgconn.finish()
            raise psycopg.OperationalError("the connection was lost")

        return wait


@pytest.mark.long
@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_postgres_goes_on_after_any_interruption(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    for at in itertools.count():
        namespace = uuid.uuid4().hex
        backend = PostgresBackend(namespace, postgres_server.url, "test", 5)
        losing = LosingConnections(at, is_done)
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "wait", losing.wait)
            expected = scenario(BufferedState(namespace, backend))
        judge(BufferedState(namespace, PostgresBackend(namespace, postgres_server.url, "test", 5)), expected)
        if not losing.has_lost:
            assert at >= 35  # seven or more for each write
            return


class RepeatingRedis(InterruptedRedis):
    """A client that sends each script again, as if the answer to the first had been lost."""

    def __init__(self, client: Any) -> None:
        super().__init__(client, NEVER, NEVER)

    def _operate(self, work: Callable[[], Any]) -> Any:
        work()
        return work()


def test_a_script_that_is_sent_again_is_not_done_twice(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 3)
    namespace = uuid.uuid4().hex
    backend = RedisBackend(namespace, redis_server.url, "test", 5)
    backend._client = RepeatingRedis(backend._client)
    expected = scenario(BufferedState(namespace, backend))
    judge(BufferedState(namespace, RedisBackend(namespace, redis_server.url, "test", 5)), expected)


@pytest.mark.parametrize("provider", ["redis"])
@pytest.mark.parametrize("is_told_again", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("commands", range(6))
def test_a_commit_that_was_interrupted_half_way_is_ended_by_the_next_to_open(
    place_of: Callable[[str], StatePlace],
    provider: str,
    commands: int,
    is_told_again: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Committed or not, all of it is, whatever the next one is told."""
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 2)
    place = place_of(provider)
    first = place.open()
    before, after = {number: 1 for number in range(9)}, {number: 2 for number in range(1, 9)}
    for number in before:
        first.put(number, 1)
    first.prepare_commit(1)
    first.commit(1)
    for number in after:
        first.put(number, 2)
    first.delete(0)
    first.prepare_commit(2)
    assert isinstance(first, BufferedState)
    backend: Any = first._backend
    backend._client = InterruptedRedis(backend._client, commands, NEVER)
    try:
        first.commit(2)
    except UnavailableError:
        assert first.prepared == 2
        assert dict(first.items()) == after  # it sees its own changes, wherever they are
    second = place.open()
    assert (second.committed, second.prepared) == ((1, 2) if commands == 0 else (2, None))
    assert dict(second.items()) == (before if commands == 0 else after)
    if is_told_again:
        second.commit(2)
        assert dict(second.items()) == after
    else:
        second.rollback()
        assert dict(second.items()) == (before if commands == 0 else after)
    assert place.open().prepared is None


class FailingCalls:
    """The calls of the file system by which the shared directory is read and written, of which number ``at`` fails."""

    NAMES = "link", "fsync", "listdir", "remove", "open"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shared: Path, at: int, is_done: bool) -> None:
        self._shared = str(shared)
        self._at = at
        self._is_done = is_done
        self.count = 0
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **named: Any) -> Any:
            if not self._is_shared(arguments[0], named):
                return call(*arguments, **named)
            self.count += 1
            if self.count != self._at:
                return call(*arguments, **named)
            if self._is_done:
                done = call(*arguments, **named)
                if call.__name__ == "open":
                    os.close(done)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        return failing

    def _is_shared(self, subject: Any, named: dict[str, Any]) -> bool:
        return isinstance(subject, int) or bool(named) or str(subject).startswith(self._shared)


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_a_shared_directory_goes_on_after_any_interruption(tmp_path: Path, is_done: bool) -> None:
    (tmp_path / "shared").mkdir()
    paths = str(tmp_path / "copies"), str(tmp_path / "shared")
    for at in itertools.count(1):
        namespace = uuid.uuid4().hex
        state: State = BufferedState(namespace, RocksDBBackend(namespace, *paths))
        with pytest.MonkeyPatch.context() as monkeypatch:
            calls = FailingCalls(monkeypatch, tmp_path / "shared", at, is_done)
            expected = scenario(state)
        state.close()
        judge(BufferedState(namespace, RocksDBBackend(namespace, *paths)), expected)
        if calls.count < at:
            assert at > 40  # some eight for each prepare and commit
            return
