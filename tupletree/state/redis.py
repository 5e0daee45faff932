"""States in Redis. For layout and scripts see redis_scripts.py.

Durability depends on the configuration of Redis. With ``appendonly yes`` and ``appendfsync always`` a checkpoint
survives a crash of Redis. Otherwise the last second or more can be lost, and a replica that takes over lacks the writes
that had not reached it. Keys dropped by an eviction policy are lost too.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from tupletree._stores.redis import RedisAddress, warn_if_forgetful
from tupletree.context import TopologyContext
from tupletree.errors import AuthorityError, InternalError, UnavailableError, UsageError
from tupletree.state import redis_scripts as scripts
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.state.reader import StateReader
from tupletree.state.redis_reader import RedisReader

R = TypeVar("R")

FORMAT: Final = 1
PAGE: Final = 1_000
CHUNK_ENTRIES = 2_000
CHUNK_BYTES = 1_000_000
"""The maximum amount of data per script call, unless a single entry is larger."""

MAX_BYTES: Final = 512 * 1024 * 1024 - 1
"""The maximum size of a key and its value: the string limit of Redis, minus the sign in front of a value."""


class RedisStateProvider(StateProvider):
    """States in a Redis server, 5 or newer, not a Redis Cluster. Needs ``pip install 'tupletree[redis]'``.

    Configuration: ``url``: a redis-py URL, for example ``redis://host:6379/0`` or ``unix:///run/redis.sock``;
    ``prefix``: the prefix of all keys in Redis; ``timeout_s``: how long to wait for a reply.
    """

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("redis", conf)
        backend = RedisBackend(namespace, options["url"], options["prefix"], options["timeout_s"])
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"])

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options = parsed("redis", conf)
        RedisBackend(namespace, options["url"], options["prefix"], options["timeout_s"]).remove()

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        options = parsed("redis", conf)
        address = RedisAddress("RedisStateProvider", options["url"], options["timeout_s"])
        return RedisReader(namespace, address, f"{options['prefix']}:{namespace}", FORMAT)


class RedisBackend:
    """The keys of one namespace."""

    def __init__(self, namespace: str, url: str, prefix: str, timeout_s: float) -> None:
        self.committed: int | None = None
        self.prepared: int | None = None
        self._namespace = namespace
        self._about, self._values, self._chunk = (
            f"{prefix}:{namespace}:{part}" for part in ("about", "committed", "prepared:")
        )
        self._address = RedisAddress("RedisStateProvider", url, timeout_s)
        self._client = self._address.shared_client()
        self._step = 0
        self._chunks = 0  # number of prepared chunks
        self._unmoved: list[int] = []  # remaining chunks of a commit that has begun
        self._is_sure = False  # True if the attributes match the store, because the last command was answered
        self._owner = self._use(self._take_over)
        self._complete_commit()

    def get(self, key: bytes) -> bytes | None:
        self._complete_commit()
        found: bytes | None = self._use(lambda: self._client.hget(self._values, key))
        return found

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        self._complete_commit()
        server, cursor = None, 0
        while True:
            run, (cursor, page) = self._use(functools.partial(self._page, cursor))
            if server not in (None, run):  # a cursor is meaningless to another server
                raise UnavailableError(f"{self._address}: Redis was restarted while state {self._namespace!r} was read")
            server = run
            yield page.items()
            if cursor == 0:
                return

    def prepare(self, txid: int, changes: Changes) -> None:
        self._complete_commit()
        chunks = list(_chunks(self._namespace, changes))
        self._is_sure = False
        for number, chunk in enumerate(chunks, start=1):
            first, last = "first" if number == 1 else "", txid if number == len(chunks) else ""
            self._write(scripts.PREPARE, first, last, *chunk)
        self.prepared = txid
        self._chunks = 0 if chunks == [[]] else len(chunks)
        self._is_sure = True

    def commit(self, txid: int) -> None:
        self._complete_commit()
        if self.committed == txid:
            return
        if self.prepared != txid:
            raise not_prepared(self._namespace, txid)
        self._is_sure = False
        self._write(scripts.COMMIT, txid)
        self.committed, self.prepared = txid, None
        self._unmoved = list(range(2, self._chunks + 1))
        self._move()
        self._is_sure = True

    def rollback(self) -> None:
        self._complete_commit()
        self._is_sure = False
        self._write(scripts.ROLLBACK)
        self.prepared = None
        self._is_sure = True

    def remove(self) -> None:
        """Remove everything that is stored. Nothing can be done with this object afterwards."""
        chunks = [f"{self._chunk}{number}" for number in range(1, self._chunks + 1)]
        self._use(lambda: self._client.unlink(self._about, self._values, *chunks))
        self.close()

    def close(self) -> None:
        self._address.close()

    def _complete_commit(self) -> None:
        """After a command without a reply, reread the stored status, and complete a commit that has begun."""
        if self._is_sure:
            return
        committed, prepared, chunks, moved = self._write(scripts.LOOK)
        self.committed, self.prepared = (None if one is None else int(one) for one in (committed, prepared))
        self._chunks = int(chunks or 0)
        self._unmoved = [] if moved is None else list(range(int(moved) + 1, self._chunks + 1))
        self._move()
        self._is_sure = True

    def _move(self) -> None:
        for chunk in self._unmoved:
            self._write(scripts.MOVE, chunk)
        self._unmoved = []

    def _write(self, script: str, *arguments: str | bytes | int) -> list[Any]:
        """Run a script with the owner and the next step number."""
        self._step += 1
        keys = [self._about, self._values, self._chunk]
        run = self._client.register_script(script)
        answer, *rest = self._use(lambda: run(keys=keys, args=[self._owner, self._step, *arguments]))
        match answer:
            case b"OK":
                return list(rest)
            case b"OWNER":
                raise superseded(self._namespace)
            case b"CONFLICT":
                raise not_prepared(self._namespace, int(arguments[0]))
            case b"GONE":
                raise AuthorityError(f"the data of state {self._namespace!r} was removed from {self._address}")
        raise InternalError(f"{self._address}: state {self._namespace!r}: a script answered {answer!r}")

    def _take_over(self) -> bytes:
        warn_if_forgetful(self._address)
        run = self._client.register_script(scripts.OPEN)
        answer, found = run(keys=[self._about, self._values], args=[uuid.uuid4().hex, FORMAT])
        match answer:
            case b"FOREIGN":
                raise UsageError(
                    f"{self._address}: key {found.decode()!r} exists already and was not created by Tupletree: "
                    f"choose another prefix"
                )
            case b"NEWER":
                raise UsageError(
                    f"{self._address}: state {self._namespace!r} has format {found}, and this version of Tupletree "
                    f"knows formats up to {FORMAT}: a newer version has written it"
                )
        owner: bytes = found
        return owner

    def _page(self, cursor: int) -> tuple[str, Any]:
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.info("server")
            pipeline.hscan(self._values, cursor, count=PAGE)
            about, page = pipeline.execute()
        return about["run_id"], page

    def _use(self, work: Callable[[], R]) -> R:
        with self._address.client(f"state {self._namespace!r}"):
            return work()


def _chunks(namespace: str, changes: Changes) -> Iterator[list[bytes]]:
    """Split changes into chunks of alternating keys and values. Yields one empty chunk if nothing changed."""
    chunk: list[bytes] = []
    size = 0
    for key, value in changes.items():
        length = len(key) + len(value or b"")
        if length > MAX_BYTES:
            raise UsageError(
                f"state {namespace!r}: a key and its value take {length:,} bytes; Redis allows {MAX_BYTES:,}"
            )
        if chunk and (len(chunk) >= 2 * CHUNK_ENTRIES or size + length > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk += key, b"-" if value is None else b"+" + value
        size += length
    yield chunk
