"""Handlers of the REST API for dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tupletree.dead_letters import DeadLetterStore

from . import letters
from .letter_stores import LetterStore, LetterStores
from .requests import ApiCall, StoreFailedError


class LetterHandlers:
    """One method per endpoint of routes.py that reads or changes dead letters."""

    def __init__(self, stores: LetterStores) -> None:
        self._letters = stores

    async def letter_stores(self, call: ApiCall) -> Any:
        async def counted(one: LetterStore) -> dict[str, Any]:
            try:
                return letters.store(one.name, one.address, await one.run(lambda opened: opened.count()))
            except StoreFailedError as error:
                return letters.store(one.name, one.address, None, str(error))

        return {"stores": await asyncio.gather(*map(counted, self._letters.all()))}

    async def letters(self, call: ApiCall) -> Any:
        store, after = self._letters.named(call.path["store"]), letters.after_of(call)
        limit = call.whole("limit", letters.DEFAULT_LETTERS, 1, letters.MAX_LETTERS)
        name = call.query.get("topology", "")
        read = await store.run(lambda opened: letters.read(opened, name, limit + 1, after))
        return letters.page(store.name, store.address, read, limit, time.time())

    async def letter(self, call: ApiCall) -> Any:
        store = self._letters.named(call.path["store"])
        found = await store.run(lambda opened: letters.found(opened, call))
        return letters.letter(store.name, store.address, found)

    async def replay_letters(self, call: ApiCall) -> Any:
        choose = letters.chosen(call, replayed=False)

        def replay(store: DeadLetterStore) -> int:
            ids = choose(store)
            store.replay(ids)
            return len(ids)

        return await self._change_letters(call, replay)

    async def drop_letters(self, call: ApiCall) -> Any:
        choose = letters.chosen(call, with_damaged=True)

        def drop(store: DeadLetterStore) -> int:
            ids = choose(store)
            store.remove(ids)
            return len(ids)

        return await self._change_letters(call, drop)

    async def _change_letters(self, call: ApiCall, change: Callable[[DeadLetterStore], int]) -> Any:
        store = self._letters.named(call.path["store"])
        return letters.changed(store.name, await store.run(change))
