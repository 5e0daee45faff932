"""Waits of a stream's linger, on its thread or on its event loop."""

from __future__ import annotations

import asyncio
import time

from tupletree.drpc.linger import Linger


def wait_to_write(linger: Linger) -> None:
    """Wait on the thread of a stream until the next message may be written."""
    if (pause_s := linger.pause_s(time.monotonic())) > 0:
        time.sleep(pause_s)


async def lingered(linger: Linger) -> None:
    """Wait until the next message may be written."""
    if (pause_s := linger.pause_s(time.monotonic())) > 0:
        await asyncio.sleep(pause_s)
