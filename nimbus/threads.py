"""Thread pools in which nimbus waits for ZooKeeper and the disk, separate for work that must not block other work.

A call to ZooKeeper blocks a thread for up to ten seconds while ZooKeeper is down, and a slow disk blocks a thread for
an unbounded time. Calls therefore have many threads (asyncio's default executor). The leader's reconciler has a pool
that no call can exhaust. A third pool reads and writes bundles.
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
    """Thread pool for one purpose. Threads start on demand and end with the process."""

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"nimbus-{name}")

    async def run(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a call like ``asyncio.to_thread``, in a thread of this pool."""
        work = functools.partial(contextvars.copy_context().run, functools.partial(call, *arguments, **named))
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


leading = Lane("leading", LEADING)
disk = Lane("disk", DISK)


def widen_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Give ``asyncio.to_thread`` enough threads for blocking calls."""
    loop.set_default_executor(ThreadPoolExecutor(CALLS, thread_name_prefix="nimbus-calls"))
