"""Dead letters in Redis."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from tupletree._stores.redis import RedisAddress
from tupletree._wire.codec import decode_plain, encode_value
from tupletree.dead_letters.letter import Letter
from tupletree.dead_letters.store import DeadLetterStore, Position
from tupletree.errors import ProtocolError, UnavailableError

_BUSY_S: Final = 10.0
_AT_ONCE: Final = 100  # letters in one answer of the server: their rows can be large


class RedisLetters(DeadLetterStore):
    """Letters in Redis 5 or newer: a hash of letters by id, and a sorted set of ids by time.

    Both keys begin with the ``prefix`` in the URL's query, or else with ``tupletree``.

    Letters that are changed during a call may be missing from its result.
    """

    def __init__(self, url: str, timeout_s: float | None = None) -> None:
        address, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        self._key = f"{options.pop('prefix', 'tupletree')}:dead-letters"
        self._order = f"{self._key}:by-time"
        own = f"{address}?{urlencode(options)}" if options else address
        self._timeout_s = timeout_s
        # The client repeats a command whose answer does not come once.
        self._address = RedisAddress("a store of dead letters", own, _BUSY_S if timeout_s is None else timeout_s / 2)

    def add(self, letters: Sequence[Letter]) -> None:
        if not letters:
            return
        with self._address.client() as redis:
            known = redis.hmget(self._key, [letter.id for letter in letters])
            found = [
                letter if old is None else dataclasses.replace(letter, at_s=self._letter(letter.id, old).at_s)
                for letter, old in zip(letters, known, strict=True)
            ]
            with redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(self._key, mapping={letter.id: encode_value(letter.stored()) for letter in found})
                pipeline.zadd(self._order, {letter.id: letter.at_s for letter in found})
                pipeline.execute()

    def count(self) -> int | None:
        with self._address.client() as redis:
            return int(redis.hlen(self._key))

    def letters(
        self,
        name: str = "",
        *,
        replayed: bool | None = None,
        limit: int = 1000,
        newest: bool = False,
        after: Position | None = None,
        rows: bool = True,
    ) -> list[Letter]:
        found = list(itertools.islice(self._chosen(name, replayed, newest, after), limit))
        return found if rows else [dataclasses.replace(letter, row=b"") for letter in found]

    def find(self, id: str) -> Letter | None:
        with self._address.client() as redis:
            data = redis.hget(self._key, id)
        return None if data is None else dataclasses.replace(self._letter(id, data), row=b"")

    def ids(
        self, name: str = "", *, replayed: bool | None = None, until_s: float | None = None, limit: int = 1000
    ) -> list[str]:
        in_order = self._chosen(name, replayed)
        kept = itertools.takewhile(lambda one: until_s is None or one.at_s <= until_s, in_order)
        return [one.id for one in itertools.islice(kept, limit)]

    def replay(self, ids: Iterable[str]) -> None:
        with self._address.client() as redis:
            for some in _parts(ids):
                found = zip(some, redis.hmget(self._key, some), strict=True)
                letters = [self._letter(id, data) for id, data in found if data is not None]
                marked = [dataclasses.replace(letter, is_replayed=True) for letter in letters]
                if marked:
                    redis.hset(self._key, mapping={one.id: encode_value(one.stored()) for one in marked})

    def remove(self, ids: Iterable[str]) -> None:
        with self._address.client() as redis:
            for some in _parts(ids):
                with redis.pipeline(transaction=True) as pipeline:
                    pipeline.hdel(self._key, *some)
                    pipeline.zrem(self._order, *some)
                    pipeline.execute()

    def _chosen(
        self, name: str, replayed: bool | None, newest: bool = False, after: Position | None = None
    ) -> Iterator[Letter]:
        """Yield letters in order, as ``letters`` does."""
        ends_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        seen: set[bytes] = set()  # a letter that is stored meanwhile moves the others
        with self._address.client() as redis:
            self._complete_order(redis)
            start = 0 if after is None else self._rank_after(redis, after, newest)
            while ids := redis.zrange(self._order, start, start + _AT_ONCE - 1, desc=newest):
                if ends_s is not None and time.monotonic() > ends_s:
                    raise UnavailableError(f"dead letters in {self._address}: not read within {self._timeout_s:g} s")
                for id, data in zip(ids, redis.hmget(self._key, ids), strict=True):
                    if data is None or id in seen:
                        continue
                    letter = self._letter(id.decode("utf-8", "replace"), data)
                    if name in ("", letter.name) and replayed in (None, letter.is_replayed):
                        yield letter
                seen.update(ids)
                start += len(ids)

    def _rank_after(self, redis: Any, place: Position, newest: bool) -> int:
        """Return the number of letters that are not after a place in the order, whether or not a letter is there."""
        at_s, id = place
        before = (
            redis.zcount(self._order, f"({at_s!r}", "+inf")
            if newest
            else redis.zcount(self._order, "-inf", f"({at_s!r}")
        )
        same: list[str] = [one.decode("utf-8", "replace") for one in redis.zrangebyscore(self._order, at_s, at_s)]
        return int(before) + sum(one >= id if newest else one <= id for one in same)

    def _complete_order(self, redis: Any) -> None:
        """Put letters into the order that were stored without: by versions that had none."""
        if redis.zcard(self._order) < redis.hlen(self._key):
            for id, data in redis.hscan_iter(self._key, count=_AT_ONCE):
                redis.zadd(self._order, {id: self._letter(id.decode("utf-8", "replace"), data).at_s})

    def _letter(self, id: str, data: bytes) -> Letter:
        try:
            return Letter.from_stored(decode_plain(data))
        except ProtocolError as error:
            raise ProtocolError(f"dead letters in {self._address}: the entry {id[:40]!r}: {error}") from error


def _parts(ids: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(ids)
    while some := list(itertools.islice(waiting, _AT_ONCE)):
        yield some
