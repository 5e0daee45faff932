"""Whose new trees are taken when the ledgers are full: overload is passed on to the senders, never dropped.

Only inits wait. Acks, fails and resets are what makes room: they are applied as they come, also those of a message
whose inits must wait, and those of the messages behind it (held_inits.py). Who waits is decided for each topology:

    total entries     whose inits pass
    up to 80 %        everybody's
    up to 100 %       of topologies that hold less than an equal part of the limit
    above             of topologies that hold less than their reserve: an equal part of a quarter of the limit
    above 150 %       nobody's

So a topology alone may hold the limit, and one topology's burst never stops another below its reserve. While the number
of topologies stays the same the total is at most 125 %, besides the one part of a message that each stream has in hand;
the last line counts where many topologies came one after the other, and each filled what was its reserve then.

Acks whose init never comes make entries, too. A topology that has more of these than the limit is not read until they
have expired: nothing that it sends is lost, and nobody else waits for it.
"""

from __future__ import annotations

import asyncio

FREE_SHARE, RESERVE_SHARE, STOP_SHARE = 0.8, 0.25, 1.5


def admits(limit: int, total: int, own: int, topologies: int) -> bool:
    """Whether a topology with ``own`` of the ``total`` entries may begin trees, where so many topologies are served."""
    if total < limit and (total < FREE_SHARE * limit or own * topologies < limit):
        return True
    return own * topologies < RESERVE_SHARE * limit and total < STOP_SHARE * limit


class Admission:
    """Tell it a topology's entries with ``set_entries`` after every change; ``room`` waits as long as inits must."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries = 0
        self.waiting = 0
        """Messages whose inits are held back now."""
        self._held: dict[str, tuple[int, int]] = {}  # by topology: entries, and those without an init
        self._falls = asyncio.Event()  # replaced at each fall of the entries
        self._waiters = 0

    @property
    def full(self) -> bool:
        return self.entries > self.limit

    def set_entries(self, topology: str, entries: int, without_init: int = 0) -> None:
        """A topology has so many entries now."""
        before, without_before = self._held.get(topology, (0, 0))
        self._held[topology] = entries, without_init
        self.entries += entries - before
        if entries < before or without_init < without_before:
            self._fell()

    def forget(self, topology: str) -> None:
        """A topology is not served any more."""
        self.entries -= self._held.pop(topology, (0, 0))[0]
        self._fell()

    def admits(self, topology: str) -> bool:
        """Whether inits of a topology may be applied now."""
        if self.entries < FREE_SHARE * self.limit:
            return True
        own, _ = self._held.get(topology, (0, 0))
        return admits(self.limit, self.entries, own, len(self._held) + (topology not in self._held))

    async def room(self, topology: str) -> None:
        """Return when inits of a topology may be applied."""
        while not self.admits(topology):
            await self._fall()

    async def readable(self, topology: str) -> None:
        """Return when anything of a topology may be applied."""
        while self._held.get(topology, (0, 0))[1] > self.limit:
            await self._fall()

    async def _fall(self) -> None:
        self._waiters += 1
        try:
            await self._falls.wait()
        finally:
            self._waiters -= 1

    def _fell(self) -> None:
        if self._waiters:
            self._falls.set()
            self._falls = asyncio.Event()
