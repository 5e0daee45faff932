"""Cache of built responses: each is built at most once a second, regardless of the number of clients."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

FRESH_S: Final = 1.0
_MOST: Final = 256
_MAX_BYTES: Final = 16 * 1024 * 1024

Built = tuple[str, bytes]  # content type and text


class PageCache:
    """Responses of the last second. Failures are not cached. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[float, Built]] = OrderedDict()
        self._bytes = 0
        self._building: dict[Hashable, asyncio.Future[Built]] = {}
        self._generation = 0

    async def get(self, key: Hashable, build: Callable[[], Awaitable[Built]]) -> Built:
        """Return the response for ``key``: cached within the last second, from a build in progress, or newly built."""
        found = self._kept.get(key)
        if found is not None and time.monotonic() - found[0] < FRESH_S:
            return found[1]
        building = self._building.get(key)
        if building is None:
            building = asyncio.ensure_future(self._build(key, build))
            self._building[key] = building
            building.add_done_callback(lambda done: self._built(key, done))
        return await asyncio.shield(building)

    def clear(self) -> None:
        """Drop all responses, including those being built, after a change."""
        self._kept.clear()
        self._building.clear()
        self._bytes = 0
        self._generation += 1

    async def _build(self, key: Hashable, build: Callable[[], Awaitable[Built]]) -> Built:
        generation, began_s = self._generation, time.monotonic()
        built = await build()
        if generation == self._generation:
            self._forget(key)
            self._kept[key] = (began_s, built)
            self._bytes += len(built[1])
            while len(self._kept) > _MOST or self._bytes > _MAX_BYTES:
                self._forget(next(iter(self._kept)))
        return built

    def _built(self, key: Hashable, done: asyncio.Future[Built]) -> None:
        if self._building.get(key) is done:
            del self._building[key]
        if not done.cancelled():
            done.exception()  # mark as retrieved; all waiters received the exception

    def _forget(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= len(found[1][1])
