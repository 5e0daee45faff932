"""The inits of one stream that wait for room. What the stream sends meanwhile is read, and its acks are applied.

A message is confirmed when all of it is applied, and so are those behind it: what was not applied when the stream
breaks is not confirmed, and the worker fails it. While anything is held the worker is asked, by ``hold`` in the
replies, to begin no more trees and to go on sending the rest. A worker that does not listen is not read any more once
``most_roots`` inits of its own wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .admission import Admission
from .updates import Batch


@dataclass(frozen=True, slots=True)
class Message:
    """A message of which only these inits are still to be applied."""

    sequence: int
    shard_version: int
    inits: Sequence[Batch]

    @property
    def roots(self) -> int:
        return sum(map(len, self.inits))


class HeldInits:
    """``apply`` applies inits; ``finish`` is told of each message when all of it is applied, in their order."""

    def __init__(
        self,
        admission: Admission,
        topology: str,
        max_roots: int,
        apply: Callable[[Batch], None],
        finish: Callable[[Message], None],
    ) -> None:
        self._admission = admission
        self._topology = topology
        self._most_roots = max_roots
        self._apply = apply
        self._finish = finish
        self._messages: deque[Message] = deque()
        self._roots = 0
        self._more = asyncio.Event()
        self._falls = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether a message waits."""
        return bool(self._messages)

    def take(self, message: Message) -> None:
        """The rest of a message that was read. If nothing of it waits, and none before it does, it is finished."""
        if not self._messages and not message.inits:
            self._finish(message)
            return
        self._messages.append(message)
        self._roots += message.roots
        self._admission.waiting += bool(message.inits)
        self._more.set()

    async def room(self) -> None:
        """Return when the next message may be read."""
        while self._roots > self._most_roots:
            self._falls.clear()
            await self._falls.wait()

    async def emptied(self) -> None:
        """Return when nothing waits."""
        while self._messages:
            self._falls.clear()
            await self._falls.wait()

    async def keep(self) -> None:
        """Apply what waits as soon as there is room for it, for ever."""
        while True:
            while self._messages:
                message = self._messages[0]
                for batch in message.inits:
                    await self._admission.room(self._topology)
                    self._apply(batch)
                    await asyncio.sleep(0)
                self._drop_first()
                self._finish(message)
                self._falls.set()
            self._more.clear()
            await self._more.wait()

    def close(self) -> None:
        """Let go of what waits: it was never confirmed."""
        while self._messages:
            self._drop_first()

    def _drop_first(self) -> None:
        message = self._messages.popleft()
        self._roots -= message.roots
        self._admission.waiting -= bool(message.inits)
        self._falls.set()
