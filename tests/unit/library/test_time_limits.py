"""Time limits of asyncio tasks that share one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tupletree._time_limits import TimeLimit, TimeLimits

SHORT_S = 0.01


async def limited(limits: TimeLimits, work: Callable[[], Awaitable[Any]]) -> tuple[str, TimeLimit]:
    """Do the work within the limit, and say how it ended."""
    task = asyncio.current_task()
    assert task is not None
    limit = limits.begin(task)
    try:
        await work()
    except asyncio.CancelledError:
        end = "cancelled otherwise" if limit.is_cancelled_otherwise else "passed" if limit.has_passed else "awaited"
    except Exception as error:
        end = type(error).__name__
    else:
        end = "done"
    finally:
        limits.end(limit)
    return end, limit


async def forever() -> None:
    await asyncio.Event().wait()


async def shortly() -> None:
    await asyncio.sleep(0)


async def ignoring() -> None:
    """Return although cancelled."""
    try:
        await forever()
    except asyncio.CancelledError:
        return


async def raising() -> None:
    """Raise another exception because of the cancellation, as clients of services do."""
    try:
        await forever()
    except asyncio.CancelledError:
        raise ConnectionError("the request was given up") from None


async def of_another() -> None:
    """Await what somebody else has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def within_another_timeout() -> None:
    async with asyncio.timeout(60):
        await forever()


@pytest.mark.parametrize(
    ("work", "end"),
    [
        (forever, "passed"),
        (shortly, "done"),
        (ignoring, "done"),
        (raising, "ConnectionError"),
        (of_another, "awaited"),
        (within_another_timeout, "passed"),
    ],
)
def test_a_task_is_cancelled_when_its_limit_has_passed_and_can_go_on(work: Any, end: str) -> None:
    async def scene() -> tuple[str, int]:
        found, limit = await limited(TimeLimits(SHORT_S), work)
        await asyncio.sleep(0)  # a cancellation that is left over would come here
        return found, limit.task.cancelling()

    assert asyncio.run(scene()) == (end, 0)


def test_each_task_has_its_own_limit_and_those_that_end_in_time_are_left_alone() -> None:
    async def scene() -> list[str]:
        limits = TimeLimits(20 * SHORT_S)
        works: list[Callable[[], Awaitable[Any]]] = []
        for _ in range(50):
            works += [shortly, forever]
        tasks = []
        for at, work in enumerate(works):
            tasks.append(asyncio.create_task(limited(limits, work)))
            if at % 10 == 0:
                await asyncio.sleep(SHORT_S)
        ends = [(await task)[0] for task in tasks]
        assert not limits._running and not limits._has_timer
        ends.append((await limited(limits, forever))[0])  # the timer starts again
        return ends

    assert asyncio.run(scene()) == ["done", "passed"] * 50 + ["passed"]


@pytest.mark.parametrize("limit_s", [0.0, 60.0])
def test_a_task_that_another_cancels_ends_whether_its_limit_has_passed_or_not(limit_s: float) -> None:
    async def scene() -> tuple[str, bool]:
        task = asyncio.create_task(limited(TimeLimits(limit_s), forever))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(0.0, task.cancel)  # with a limit of 0 s, in the same turn as the limit
        end, limit = await task
        return end, limit.has_passed

    assert asyncio.run(scene()) == ("cancelled otherwise", limit_s == 0.0)
