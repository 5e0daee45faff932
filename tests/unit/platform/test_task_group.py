"""The background tasks of a daemon: the first that fails ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tupletree._daemon.task_group import TaskGroup


def run(scenario: Callable[[TaskGroup], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await scenario(TaskGroup())

    asyncio.run(within())


async def forever() -> None:
    await asyncio.Event().wait()


async def broken() -> None:
    raise ValueError("broken")


def test_until_returns_the_result_while_all_tasks_are_well() -> None:
    async def scenario(tasks: TaskGroup) -> None:
        tasks.start(forever(), "one that goes on")
        assert await tasks.start(asyncio.sleep(0, "done"), "one that ends") == "done"
        assert await tasks.until(asyncio.sleep(0, "result")) == "result"
        assert tasks.failure is None

    run(scenario)


def test_a_task_that_fails_ends_until_with_its_error() -> None:
    async def scenario(tasks: TaskGroup) -> None:
        tasks.start(broken(), "broken")
        with pytest.raises(ValueError, match="broken"):
            await tasks.until(forever())
        with pytest.raises(ValueError, match="broken"):  # an error before the call counts as well
            await tasks.until(forever())

    run(scenario)


def test_the_first_error_counts_wherever_it_occurred() -> None:
    async def scenario(tasks: TaskGroup) -> None:
        tasks.fail(MemoryError())
        tasks.start(broken(), "broken")
        with pytest.raises(MemoryError):
            await tasks.until(forever())
        assert isinstance(tasks.failure, MemoryError)

    run(scenario)


def test_cancelled_tasks_have_ended_and_not_failed() -> None:
    async def scenario(tasks: TaskGroup) -> None:
        task = tasks.start(forever(), "one that goes on")
        await tasks.cancel()
        assert task.cancelled()
        assert tasks.failure is None

    run(scenario)
