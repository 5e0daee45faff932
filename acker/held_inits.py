"""The inits of one stream that wait for room in the ledgers. The stream is still read, and its acks are applied.

Messages are confirmed in order, each once all its updates are applied. Updates not applied when the stream breaks are
therefore not confirmed, and the worker fails their trees. While inits are held, ``hold`` in the replies asks the worker
to begin no more trees and to continue sending other updates. A worker that ignores ``hold`` is not read while more than
``max_roots`` of its inits wait.
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
    """A message whose updates are all applied except ``inits``."""

    sequence: int
    shard_version: int
    inits: Sequence[Batch]

    @property
    def roots(self) -> int:
        return sum(map(len, self.inits))


class HeldInits:
    """A queue of messages.

    ``apply`` applies inits. ``finish`` is called in order with each fully applied message; its second argument is True
    while further messages wait.
    """

    def __init__(
        self,
        admission: Admission,
        topology: str,
        max_roots: int,
        apply: Callable[[Batch], None],
        finish: Callable[[Message, bool], None],
    ) -> None:
        self._admission = admission
        self._topology = topology
        self._max_roots = max_roots
        self._apply = apply
        self._finish = finish
        self._messages: deque[Message] = deque()
        self._roots = 0
        self._added = asyncio.Event()
        self._removed = asyncio.Event()

    @property
    def roots(self) -> int:
        """Number of inits that wait."""
        return self._roots

    def __bool__(self) -> bool:
        """True while a message waits."""
        return bool(self._messages)

    def enqueue(self, message: Message) -> None:
        """Queue the rest of a message. Finish the message at once if no inits remain and the queue is empty."""
        if not self._messages and not message.inits:
            self._finish(message, False)
            return
        self._messages.append(message)
        self._roots += message.roots
        self._admission.waiting += bool(message.inits)
        self._added.set()

    async def wait_for_room(self) -> None:
        """Wait until the next message may be read."""
        while self._roots > self._max_roots:
            self._removed.clear()
            await self._removed.wait()

    async def wait_until_empty(self) -> None:
        """Wait until the queue is empty."""
        while self._messages:
            self._removed.clear()
            await self._removed.wait()

    async def apply_forever(self) -> None:
        """Apply waiting inits as soon as there is room, forever."""
        while True:
            while self._messages:
                message = self._messages[0]
                for batch in message.inits:
                    await self._admission.wait_for_room(self._topology)
                    self._apply(batch)
                    await asyncio.sleep(0)
                self._drop_first()
                self._finish(message, bool(self._messages))
                self._removed.set()
            self._added.clear()
            await self._added.wait()

    def close(self) -> None:
        """Discard the waiting messages, which were never confirmed."""
        while self._messages:
            self._drop_first()

    def _drop_first(self) -> None:
        message = self._messages.popleft()
        self._roots -= message.roots
        self._admission.waiting -= bool(message.inits)
        self._removed.set()
