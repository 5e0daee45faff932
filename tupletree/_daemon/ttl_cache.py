"""A cache of values that are loaded on demand and kept for a fixed time."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values of the last ``ttl_s`` seconds, counted from the start of the load. Use in the event loop's thread only.

    Concurrent requests for a key share one load. Failures are not kept. The oldest values give way to new ones beyond
    ``max_entries``, or beyond a total of ``max_weight`` by ``weigh``.
    """

    def __init__(
        self,
        ttl_s: float,
        *,
        max_entries: float = math.inf,
        max_weight: float = math.inf,
        weigh: Callable[[V], int] = lambda value: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._weigh = weigh
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()  # the oldest first
        self._weight = 0
        self._loading: dict[K, asyncio.Future[V]] = {}
        self._generation = 0

    async def get(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        """Return the value for ``key``: cached, from a load in progress, or newly loaded. Raises the load's errors."""
        found = self._kept.get(key)
        if found is not None and self._clock() - found[0] < self._ttl_s:
            return found[1]
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.ensure_future(self._load(key, load))
            self._loading[key] = loading
            loading.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(loading)

    def clear(self) -> None:
        """Drop all values, including those being loaded, after a change."""
        self._kept.clear()
        self._loading.clear()
        self._weight = 0
        self._generation += 1

    async def _load(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        generation, began_s = self._generation, self._clock()
        value = await load()
        if generation == self._generation:
            self._drop(key)
            self._kept[key] = (began_s, value)
            self._weight += self._weigh(value)
            while self._kept and self._is_over(next(iter(self._kept.values()))[0]):
                self._drop(next(iter(self._kept)))
        return value

    def _is_over(self, oldest_s: float) -> bool:
        is_full = len(self._kept) > self._max_entries or self._weight > self._max_weight
        return is_full or self._clock() - oldest_s >= self._ttl_s

    def _loaded(self, key: K, done: asyncio.Future[V]) -> None:
        if self._loading.get(key) is done:
            del self._loading[key]
        if not done.cancelled():
            done.exception()  # mark as retrieved; all waiters received the exception

    def _drop(self, key: K) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._weight -= self._weigh(found[1])
