"""Access to the stores of dead letters that ``nimbus.dead.letters.stores`` names, off the event loop.

    call -> more than MAX_WAITING calls at this store? -> refused
         -> a thread of this store                     -> the result; or refused after LIMIT_S

Each store has threads of its own: a store that hangs holds up neither the other stores nor anything else of nimbus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tupletree.dead_letters import DeadLetterStore, open_store
from tupletree.errors import NotFoundError, TupletreeError

from ..masking import masked
from ..threads import Lane
from .requests import StoreFailedError

T = TypeVar("T")

LIMIT_S: Final = 5.0  # a page waits eight seconds, a standby nimbus ten
MAX_WAITING: Final = 8
_STORE_S: Final = 4.0  # after which a store gives up by itself
_THREADS: Final = 2


class LetterStore:
    """One store, by its name in the configuration. ``address`` has no password."""

    def __init__(self, name: str, url: str, limit_s: float = LIMIT_S) -> None:
        self.name = name
        self._limit_s = limit_s
        self.address = str(masked({"address": url})["address"])
        self._store = open_store(url, timeout_s=_STORE_S)
        self._lane = Lane(f"letters-{name}", _THREADS)
        self._waiting = 0

    async def run(self, work: Callable[[DeadLetterStore], T]) -> T:
        """Return the result of work on the store in a thread of this store.

        Raises StoreFailedError if the store cannot be used, does not answer within ``limit_s`` or has ``MAX_WAITING``
        calls at work, and NotFoundError as the work does. Work that is given up may still be done later.
        """
        if self._waiting >= MAX_WAITING:
            raise StoreFailedError(f"the store of dead letters '{self.name}' does not answer: {MAX_WAITING} calls wait")
        self._waiting += 1
        task = asyncio.ensure_future(self._lane.run(work, self._store))
        task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._limit_s):
                return await asyncio.shield(task)
        except TimeoutError:
            why = f"the store of dead letters '{self.name}' does not answer within {self._limit_s:g} s"
            raise StoreFailedError(why) from None
        except NotFoundError:
            raise
        except TupletreeError as error:
            raise StoreFailedError(f"the store of dead letters '{self.name}' cannot be used: {error}") from error

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not task.cancelled():
            task.exception()  # may have been reported already, or come too late


class LetterStores:
    """The stores by name, in the order of the configuration."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._stores = {name: LetterStore(name, url) for name, url in urls.items()}

    def all(self) -> Sequence[LetterStore]:
        return list(self._stores.values())

    def named(self, name: str) -> LetterStore:
        """Return the store with a name. Raises NotFoundError."""
        if name not in self._stores:
            raise NotFoundError(f"nimbus.dead.letters.stores has no store '{name[:100]}'")
        return self._stores[name]
