"""Who may go on reading when the ledgers are full: overload is passed on to the senders, never dropped.

An update that nobody reads stays in gRPC's windows; those fill, the worker's writes wait, and its spouts stop. But the
acks that would make room wait behind the inits on the same streams, so a hard stop alone could hold itself up until the
trees expire. Hence three steps, by the share of the limit in use:

    up to 80 %     everybody reads
    up to 100 %    a message with inits waits a tenth of a second, so that acks overtake new trees
    above          messages with inits wait until there is room; the acker is not ready
    above 125 %    every message waits

The limit can be passed by the one message that each stream has in hand.
"""

from __future__ import annotations

import asyncio

SLOW_SHARE, STOP_SHARE = 0.8, 1.25
SLOW_PAUSE_S = 0.1


class Gate:
    """Tell it the entries held with ``set_entries`` after every change; ``admit`` waits as long as a message must."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries = 0
        self.waiting = 0
        """Messages held back now."""
        self._falls = asyncio.Event()  # replaced at each fall of the entries

    @property
    def full(self) -> bool:
        return self.entries > self.limit

    def set_entries(self, entries: int) -> None:
        fell = entries < self.entries
        self.entries = entries
        if fell and self.waiting:
            self._falls.set()
            self._falls = asyncio.Event()

    async def admit(self, *, inits: bool) -> None:
        """Return when a message may be applied, with inits or without."""
        if self.entries <= (self.limit * SLOW_SHARE if inits else self.limit * STOP_SHARE):
            return
        self.waiting += 1
        try:
            if inits and not self.full:
                await asyncio.sleep(SLOW_PAUSE_S)
            while self.entries > (self.limit if inits else self.limit * STOP_SHARE):
                await self._falls.wait()
        finally:
            self.waiting -= 1
