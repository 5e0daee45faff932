"""Admission of new trees when the ledgers are full: senders see back pressure, and nothing is dropped.

Only inits wait. Acks, fails and resets free entries, so they are applied on arrival, even if the inits of their message
or of an earlier message must wait (held_inits.py). Admission is decided per topology:

    total entries     topologies whose inits are admitted
    up to 80 %        all
    up to 100 %       those that hold less than an equal share of the limit
    above             those that hold less than their reserve: an equal share of a quarter of the limit
    above 150 %       none

A single topology can therefore use the whole limit, and a burst in one topology never blocks another below its
reserve. While the number of topologies is constant, the total is at most 125 %, plus one part of a message per stream.
The last row applies when many topologies arrive one after another, and each has filled the reserve that it then had.

Acks whose init never arrives also create entries. A topology with more of these entries than the limit is not
read until they have expired: nothing that the topology sends is lost, and no other topology waits.
"""

from __future__ import annotations

import asyncio

FREE_SHARE, RESERVE_SHARE, STOP_SHARE = 0.8, 0.25, 1.5


def admits(limit: int, total: int, own: int, topologies: int) -> bool:
    """True if a topology that holds ``own`` of the ``total`` entries may begin trees, among ``topologies`` served."""
    if total < limit and (total < FREE_SHARE * limit or own * topologies < limit):
        return True
    return own * topologies < RESERVE_SHARE * limit and total < STOP_SHARE * limit


class Admission:
    """Admission control. Call ``set_entries`` after every change; ``wait_for_room`` waits until inits are admitted."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries = 0
        self.waiting = 0
        """Number of messages whose inits are held back."""
        self._held: dict[str, tuple[int, int]] = {}  # by topology: entries, and entries without an init
        self._fewer = asyncio.Event()  # replaced whenever the number of entries falls
        self._waiters = 0

    @property
    def full(self) -> bool:
        return self.entries > self.limit

    def set_entries(self, topology: str, entries: int, without_init: int = 0) -> None:
        """Record the number of entries that a topology holds."""
        before, without_before = self._held.get(topology, (0, 0))
        self._held[topology] = entries, without_init
        self.entries += entries - before
        if entries < before or without_init < without_before:
            self._wake_waiters()

    def forget(self, topology: str) -> None:
        """Remove a topology that is no longer served."""
        self.entries -= self._held.pop(topology, (0, 0))[0]
        self._wake_waiters()

    def admits(self, topology: str) -> bool:
        """True if inits of a topology may be applied now."""
        if self.entries < FREE_SHARE * self.limit:
            return True
        own, _ = self._held.get(topology, (0, 0))
        return admits(self.limit, self.entries, own, len(self._held) + (topology not in self._held))

    async def wait_for_room(self, topology: str) -> None:
        """Wait until inits of a topology may be applied."""
        while not self.admits(topology):
            await self._wait_for_fewer()

    async def wait_until_readable(self, topology: str) -> None:
        """Wait until updates of any kind may be applied for a topology."""
        while self._held.get(topology, (0, 0))[1] > self.limit:
            await self._wait_for_fewer()

    async def _wait_for_fewer(self) -> None:
        self._waiters += 1
        try:
            await self._fewer.wait()
        finally:
            self._waiters -= 1

    def _wake_waiters(self) -> None:
        if self._waiters:
            self._fewer.set()
            self._fewer = asyncio.Event()
