"""The gate: who may read on when the ledgers are full. Waiting is observed, never slept for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tupletree.acker.gate import Gate

T = TypeVar("T")


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    async def within() -> T:
        async with asyncio.timeout(10):
            return await scenario()

    return asyncio.run(within())


async def started(waiter: Awaitable[None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(waiter)
    await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task)
    return task


def test_below_eighty_percent_nobody_waits() -> None:
    async def scenario() -> None:
        gate = Gate(100)
        gate.set_entries(80)
        task = await started(gate.admit(inits=True))
        assert task.done()

    run(scenario)


def test_near_the_limit_inits_pause_and_then_pass() -> None:
    async def scenario() -> None:
        gate = Gate(100)
        gate.set_entries(81)
        inits, acks = await started(gate.admit(inits=True)), await started(gate.admit(inits=False))
        assert acks.done()
        assert not inits.done()
        assert gate.waiting == 1
        await inits
        assert gate.waiting == 0
        assert not gate.full

    run(scenario)


def test_above_the_limit_inits_wait_for_room_and_acks_pass() -> None:
    async def scenario() -> None:
        gate = Gate(100)
        gate.set_entries(101)
        assert gate.full
        inits, acks = await started(gate.admit(inits=True)), await started(gate.admit(inits=False))
        assert acks.done()
        gate.set_entries(102)
        gate.set_entries(101)
        await asyncio.sleep(0)
        assert not inits.done()
        gate.set_entries(100)
        await inits

    run(scenario)


def test_far_above_the_limit_everybody_waits() -> None:
    async def scenario() -> None:
        gate = Gate(100)
        gate.set_entries(126)
        inits, acks = await started(gate.admit(inits=True)), await started(gate.admit(inits=False))
        assert not acks.done()
        gate.set_entries(125)
        await acks
        assert not inits.done()
        gate.set_entries(0)
        await inits

    run(scenario)


def test_a_waiter_that_is_cancelled_leaves_the_queue() -> None:
    async def scenario() -> None:
        gate = Gate(100)
        gate.set_entries(200)
        task = await started(gate.admit(inits=True))
        assert gate.waiting == 1
        task.cancel()
        await asyncio.wait({task})
        assert gate.waiting == 0

    run(scenario)
