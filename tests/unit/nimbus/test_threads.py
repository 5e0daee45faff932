"""Nimbus's threads: what waits in one lane holds up nothing in another."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable

import pytest

from tupletree.nimbus.threads import CALLS, DISK, LEADING, disk, leading, widen_calls

Run = Callable[[Callable[[], object]], Awaitable[object]]
LANES: dict[str, tuple[Run, int]] = {
    "calls": (asyncio.to_thread, CALLS),
    "leading": (leading.run, LEADING),
    "disk": (disk.run, DISK),
}


@pytest.mark.parametrize("full", sorted(LANES))
def test_a_lane_whose_threads_all_wait_holds_up_no_other(full: str) -> None:
    async def main() -> None:
        widen_calls(asyncio.get_running_loop())
        run, threads = LANES[full]
        gate, waiting = threading.Event(), threading.Semaphore(0)

        def wait() -> None:
            waiting.release()
            gate.wait()

        held = [asyncio.ensure_future(run(wait)) for _ in range(threads + 1)]
        try:
            for _ in range(threads):
                while not waiting.acquire(blocking=False):
                    await asyncio.sleep(0)
            for name, (other, _) in LANES.items():
                if name != full:
                    assert await other(lambda: "done") == "done"
            assert not any(one.done() for one in held)
        finally:
            gate.set()
        await asyncio.gather(*held)

    asyncio.run(main())


def test_a_lane_knows_who_calls_and_passes_errors_on() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def main() -> None:
        who.set("me")
        assert await disk.run(who.get) == "me"
        with pytest.raises(ZeroDivisionError):
            await leading.run(divmod, 1, 0)

    asyncio.run(main())
