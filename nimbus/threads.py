"""The threads in which nimbus waits for ZooKeeper and the disk, apart for what must not wait for each other.

A call to ZooKeeper holds a thread for up to ten seconds while ZooKeeper is away, and a slow disk holds one for as long
as it likes. So calls have many threads (asyncio's default executor), the leader's own loop has threads that no call can
take, and what reads and writes bundles has others again.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

CALLS: Final = 64
LEADING: Final = 4
DISK: Final = 8

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """Some threads for one purpose. They are started when they are needed, and end with the process."""

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"nimbus-{name}")

    async def run(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """As ``asyncio.to_thread``, in a thread of this lane."""
        work = functools.partial(contextvars.copy_context().run, functools.partial(call, *arguments, **named))
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


leading = Lane("leading", LEADING)
disk = Lane("disk", DISK)


def widen_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Give ``asyncio.to_thread`` enough threads for calls that wait."""
    loop.set_default_executor(ThreadPoolExecutor(CALLS, thread_name_prefix="nimbus-calls"))
