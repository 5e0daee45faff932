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
from tupletree.dead_letters.store import Damaged, DeadLetterStore, Position
from tupletree.errors import ProtocolError, UnavailableError

_BUSY_S: Final = 10.0
_AT_ONCE: Final = 100  # letters in one answer of the server: their rows can be large

_MARK: Final = """
for _, id in ipairs(ARGV) do
  local at = redis.call('ZSCORE', KEYS[2], id)
  if at and redis.call('HEXISTS', KEYS[1], id) == 1 then redis.call('ZADD', KEYS[3], at, id) end
end
"""


class RedisLetters(DeadLetterStore):
    """Letters in Redis 5 or newer: a hash of letters by id, and two sorted sets of ids by time.

        PREFIX:dead-letters             id -> letter
        PREFIX:dead-letters:by-time     the ids of all letters
        PREFIX:dead-letters:replayed    the ids of the letters that are marked for replay

    PREFIX is the ``prefix`` in the URL's query, or else ``tupletree``. Letters that are changed during a call may be
    missing from its result. Earlier versions marked the letter itself: their spouts do not see newer marks, and their
    marks are seen by stores that are opened later.
    """

    def __init__(self, url: str, timeout_s: float | None = None) -> None:
        address, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        self._key = f"{options.pop('prefix', 'tupletree')}:dead-letters"
        self._order = f"{self._key}:by-time"
        self._marks = f"{self._key}:replayed"
        self._has_earlier_marks = True
        own = f"{address}?{urlencode(options)}" if options else address
        self._timeout_s = timeout_s
        # The client repeats a command whose answer does not come once.
        self._address = RedisAddress("a store of dead letters", own, _BUSY_S if timeout_s is None else timeout_s / 2)

    def add(self, letters: Sequence[Letter]) -> None:
        if not letters:
            return
        with self._address.client() as redis:
            known = redis.hmget(self._key, [letter.id for letter in letters])
            found = [self._since(letter, old) for letter, old in zip(letters, known, strict=True)]
            with redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(self._key, mapping={letter.id: encode_value(letter.stored()) for letter in found})
                pipeline.zadd(self._order, {letter.id: letter.at_s for letter in found})
                pipeline.zrem(self._marks, *[letter.id for letter in found])
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
        damaged: Damaged | None = None,
    ) -> list[Letter]:
        found = list(itertools.islice(self._chosen(name, replayed, newest, after, damaged), limit))
        return found if rows else [dataclasses.replace(letter, row=b"") for letter in found]

    def find(self, id: str) -> Letter | None:
        with self._address.client() as redis:
            [(_, data, is_marked)] = self._read(redis, [id])
        if data is None:
            return None
        letter = self._letter(id, data)
        return dataclasses.replace(letter, row=b"", is_replayed=letter.is_replayed or is_marked)

    def ids(
        self, name: str = "", *, replayed: bool | None = None, until_s: float | None = None, limit: int = 1000
    ) -> list[str]:
        in_order = self._chosen(name, replayed)
        kept = itertools.takewhile(lambda one: until_s is None or one.at_s <= until_s, in_order)
        return [one.id for one in itertools.islice(kept, limit)]

    def replay(self, ids: Iterable[str]) -> None:
        with self._address.client() as redis:
            self._complete_order(redis)
            for some in _parts(ids):
                self._mark(redis, some)

    def remove(self, ids: Iterable[str]) -> None:
        with self._address.client() as redis:
            for some in _parts(ids):
                with redis.pipeline(transaction=True) as pipeline:
                    pipeline.hdel(self._key, *some)
                    pipeline.zrem(self._order, *some)
                    pipeline.zrem(self._marks, *some)
                    pipeline.execute()

    def _chosen(
        self,
        name: str,
        replayed: bool | None,
        newest: bool = False,
        after: Position | None = None,
        damaged: Damaged | None = None,
    ) -> Iterator[Letter]:
        """Yield letters in order, as ``letters`` does."""
        ends_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        seen: set[bytes] = set()  # a letter that is stored meanwhile moves the others
        order = self._marks if replayed else self._order
        with self._address.client() as redis:
            self._complete_order(redis)
            if replayed:
                self._find_earlier_marks(redis)
            start = 0 if after is None else self._rank_after(redis, order, after, newest)
            while ids := redis.zrange(order, start, start + _AT_ONCE - 1, desc=newest):
                if ends_s is not None and time.monotonic() > ends_s:
                    raise UnavailableError(f"dead letters in {self._address}: not read within {self._timeout_s:g} s")
                for letter in self._whole(self._read(redis, [id for id in ids if id not in seen]), damaged):
                    if name in ("", letter.name) and replayed in (None, letter.is_replayed):
                        yield letter
                seen.update(ids)
                start += len(ids)

    def _read(self, redis: Any, ids: Sequence[str | bytes]) -> list[tuple[str, bytes | None, bool]]:
        """Return the id, the entry and the mark for each id."""
        if not ids:
            return []
        with redis.pipeline(transaction=True) as pipeline:
            pipeline.hmget(self._key, ids)
            for id in ids:
                pipeline.zscore(self._marks, id)
            entries, *marks = pipeline.execute()
        return [(_text(id), data, mark is not None) for id, data, mark in zip(ids, entries, marks, strict=True)]

    def _whole(self, entries: Iterable[tuple[str, bytes | None, bool]], damaged: Damaged | None) -> Iterator[Letter]:
        """Yield the letters, and hand over the entries that are none."""
        for id, data, is_marked in entries:
            if data is None:
                continue
            try:
                letter = self._letter(id, data)
            except ProtocolError as error:
                if damaged is None:
                    raise
                damaged(id, error)
            else:
                yield dataclasses.replace(letter, is_replayed=True) if is_marked else letter

    def _rank_after(self, redis: Any, order: str, place: Position, newest: bool) -> int:
        """Return the number of letters that are not after a place in the order, whether or not a letter is there."""
        at_s, id = place
        before = redis.zcount(order, f"({at_s!r}", "+inf") if newest else redis.zcount(order, "-inf", f"({at_s!r}")
        same: list[str] = [_text(one) for one in redis.zrangebyscore(order, at_s, at_s)]
        return int(before) + sum(one >= id if newest else one <= id for one in same)

    def _complete_order(self, redis: Any) -> None:
        """Put letters into the order that were stored without: by versions that had none."""
        if redis.zcard(self._order) < redis.hlen(self._key):
            for id, data in redis.hscan_iter(self._key, count=_AT_ONCE):
                letter = self._letter_or_none(id, data)
                redis.zadd(self._order, {id: 0 if letter is None else letter.at_s})

    def _find_earlier_marks(self, redis: Any) -> None:
        """Copy the marks that an earlier version kept inside the letters; later calls do nothing."""
        if self._has_earlier_marks:
            for id, data in redis.hscan_iter(self._key, count=_AT_ONCE):
                letter = self._letter_or_none(id, data)
                if letter is not None and letter.is_replayed:
                    self._mark(redis, [id])
            self._has_earlier_marks = False

    def _mark(self, redis: Any, ids: Sequence[str | bytes]) -> None:
        redis.register_script(_MARK)(keys=[self._key, self._order, self._marks], args=ids)

    def _since(self, letter: Letter, data: bytes | None) -> Letter:
        """Return the letter with the time of the entry that it replaces."""
        old = None if data is None else self._letter_or_none(letter.id, data)
        return letter if old is None else dataclasses.replace(letter, at_s=old.at_s)

    def _letter_or_none(self, id: str | bytes, data: bytes) -> Letter | None:
        try:
            return self._letter(_text(id), data)
        except ProtocolError:
            return None

    def _letter(self, id: str, data: bytes) -> Letter:
        try:
            return Letter.from_stored(decode_plain(data))
        except ProtocolError as error:
            raise ProtocolError(f"dead letters in {self._address}: the entry {id[:40]!r}: {error}") from error


def _text(id: str | bytes) -> str:
    return id if isinstance(id, str) else id.decode("utf-8", "replace")


def _parts(ids: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(ids)
    while some := list(itertools.islice(waiting, _AT_ONCE)):
        yield some
