"""Reader of a state in Redis. redis_scripts.py has the layout; the reader runs none of the scripts.

A commit sets ``committed`` first and moves the prepared chunks afterwards, each by a step of its own. Until the last
chunk is moved, ``moved`` exists, and the chunks that are left belong to the committed values. The reader copies these
chunks, and lets their entries override those of the hash. A chunk that has been moved since is missing, and its entries
are in the hash. The copy is valid while ``moved`` exists and ``committed`` is the same: chunks of a later checkpoint
are written only after ``moved`` is gone.

    read -> (committed, moved, values) in one transaction -> no moved:              the values
                                                          -> moved, copy is valid:  the values, overridden by the copy
                                                          -> moved, no valid copy:  copy the chunks, read again
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tupletree._stores.redis import RedisAddress
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.reader import MAX_COUNTED, MAX_COUNTED_BYTES, Entries, StateReader, bounded
from tupletree.state.sizes import Counted, Known, Tally

R = TypeVar("R")

_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 100_000
_PAGE: Final = 200
_TRIES: Final = 20

_Overrides = Mapping[bytes, bytes | None]
"""Values of committed chunks that are not in the hash yet; None: the key is deleted."""

_NO_OVERRIDES: Final[_Overrides] = {}


class RedisReader(StateReader):
    """The committed values of one namespace. ``scan`` reads all keys and values of the namespace.

    A scan during a commit that changes many keys can contain values of two checkpoints.
    """

    def __init__(self, namespace: str, address: RedisAddress, name: str, newest_format: int) -> None:
        self._namespace = namespace
        self._address = address
        self._about, self._values, self._chunk = (f"{name}:{part}" for part in ("about", "committed", "prepared:"))
        self._newest_format = newest_format
        self._client = address.shared_client()
        self._copied: tuple[bytes | None, _Overrides] = (None, {})  # the checkpoint, and its chunks
        self._use(self._check)

    @property
    def committed(self) -> int | None:
        found = self._use(lambda: self._client.hget(self._about, "committed"))
        return None if found is None else int(found)

    def get(self, key: bytes) -> bytes | None:
        [value], overrides = self._use(lambda: self._read(lambda pipe: pipe.hget(self._values, key)))
        found: bytes | None = overrides.get(key, value)
        return found

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        keys = heapq.nsmallest(limit, self._use(lambda: self._keys_after(after)))
        return bounded(self._entries(keys), limit, max_bytes)

    def count(self) -> Counted:
        """Count entries of the hash, in the order of the server. While a commit is under way, they are not all."""
        tally, cursor, is_moving = Tally(), 0, False
        while tally.keys < MAX_COUNTED and tally.bytes < MAX_COUNTED_BYTES:
            replies, overrides = self._use(functools.partial(self._read, functools.partial(self._page, cursor)))
            cursor, page = replies[0]
            tally.add(page.items())
            is_moving = is_moving or bool(overrides)
            if cursor == 0:
                return tally.counted(is_all=not is_moving)
        return tally.counted(is_all=False)

    def known(self) -> Known:
        return Known(keys=self._use(lambda: self._client.hlen(self._values)))

    def _entries(self, keys: Sequence[bytes]) -> Any:
        """Yield the keys that still exist, with their values: many small ones, or few large ones, are read at once."""
        start, size = 0, 0
        while start < len(keys):
            count = max(1, min(_AT_ONCE, start * _BYTES_AT_ONCE // (size + 1)))
            some = keys[start : start + count]
            [values], overrides = self._use(functools.partial(self._read, functools.partial(self._values_of, some)))
            for key, value in zip(some, values, strict=True):
                found = overrides.get(key, value)
                if found is not None:
                    size += len(found)
                    yield key, found
            start += count

    def _values_of(self, keys: Sequence[bytes], pipe: Any) -> None:
        pipe.hmget(self._values, keys)

    def _keys_after(self, after: bytes) -> set[bytes]:
        found: set[bytes] = set()
        cursor, known = 0, _NO_OVERRIDES
        while True:
            replies, overrides = self._read(functools.partial(self._page, cursor))
            known = overrides or known  # also once they are moved: perhaps to where the cursor has been
            cursor, page = replies[0]
            found.update(key for key in page if key > after)
            if cursor == 0:
                break
        changed = {key: value for key, value in known.items() if key > after}
        return (found - changed.keys()) | {key for key, value in changed.items() if value is not None}

    def _page(self, cursor: int, pipe: Any) -> None:
        pipe.hscan(self._values, cursor, count=_PAGE)

    def _read(self, ask: Callable[[Any], None]) -> tuple[list[Any], _Overrides]:
        """Return the replies to a question about the hash, and the values that override it."""
        for _ in range(_TRIES):
            with self._client.pipeline(transaction=True) as pipe:
                pipe.hmget(self._about, "committed", "moved", "chunks")
                ask(pipe)
                (committed, moved, chunks), *replies = pipe.execute()
            if moved is None:
                return replies, _NO_OVERRIDES
            if self._copied[0] == committed:
                return replies, self._copied[1]
            self._copied = committed, self._copy(int(moved), int(chunks))
        raise UnavailableError(f"{self._address}: state {self._namespace!r} changes too often to be read; try again")

    def _copy(self, moved: int, chunks: int) -> _Overrides:
        """Return the entries of the chunks that are not moved yet."""
        overrides: dict[bytes, bytes | None] = {}
        for number in range(moved + 1, chunks + 1):
            entries = self._client.lrange(f"{self._chunk}{number}", 0, -1)
            values = (value[1:] if value[:1] == b"+" else None for value in entries[1::2])
            overrides.update(zip(entries[::2], values, strict=True))
        return overrides

    def _check(self) -> None:
        found = self._client.hget(self._about, "format")
        if found is not None and int(found) > self._newest_format:
            raise UsageError(
                f"{self._address}: state {self._namespace!r} has format {int(found)}, and this version of Tupletree "
                f"knows formats up to {self._newest_format}: a newer version has written it"
            )

    def _use(self, work: Callable[[], R]) -> R:
        with self._address.client(f"state {self._namespace!r}"):
            return work()
