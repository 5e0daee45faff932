"""The admission: whose trees may begin when the ledgers are full. Waiting is observed, never slept for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.acker.admission import Admission, admits

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


@pytest.mark.parametrize(
    ("total", "own", "topologies", "expected"),
    [
        (799, 799, 5, True),  # there is room for everybody
        (999, 999, 1, True),  # a topology alone may hold the limit
        (1000, 1000, 1, False),
        (800, 499, 2, True),  # less than an equal part
        (800, 500, 2, False),
        (1100, 124, 2, True),  # less than its reserve
        (1100, 125, 2, False),
        (1499, 0, 2, True),
        (1500, 0, 2, False),
    ],
)
def test_whose_inits_pass(total: int, own: int, topologies: int, expected: bool) -> None:
    assert admits(1000, total, own, topologies) is expected


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(-300, 100)), max_size=200)


@given(st.integers(1, 8), STEPS)
def test_below_its_reserve_a_topology_never_waits_and_the_total_is_bounded(
    topologies: int, steps: list[tuple[int, int]]
) -> None:
    """Trees begin in parts of up to 100, as often as the admission lets them, and end as they like."""
    limit, admission = 1000, Admission(1000)
    held = dict.fromkeys(map(str, range(topologies)), 0)
    for name in held:
        admission.set_entries(name, 0)
    for number, change in steps:
        name = str(number % topologies)
        if change < 0:
            held[name] = max(0, held[name] + change)
        elif admission.admits(name):
            held[name] += change
        else:
            assert held[name] >= limit / 4 / topologies
        admission.set_entries(name, held[name])
        assert admission.entries == sum(held.values()) <= 1.25 * limit + 100 * topologies


@given(STEPS)
def test_the_total_is_bounded_whatever_topologies_come(steps: list[tuple[int, int]]) -> None:
    admission = Admission(1000)
    for number, (_, change) in enumerate(steps):
        name = str(number)
        own = 0
        while admission.admits(name) and own < 2000:
            own += max(1, abs(change))
            admission.set_entries(name, own)
        assert admission.entries <= 1500 + max((abs(one) for _, one in steps), default=0) + 1


def test_who_waits_goes_on_when_there_is_room() -> None:
    async def scenario() -> None:
        admission = Admission(100)
        admission.set_entries("a", 101)
        assert admission.full
        waiting = await started(admission.wait_for_room("a"))
        admission.set_entries("a", 102)
        admission.set_entries("a", 100)
        await asyncio.sleep(0)
        assert not waiting.done()
        admission.set_entries("a", 99)
        await waiting

    run(scenario)


def test_a_topology_that_is_forgotten_makes_room() -> None:
    async def scenario() -> None:
        admission = Admission(100)
        admission.set_entries("a", 100)
        admission.set_entries("b", 50)
        waiting = await started(admission.wait_for_room("b"))
        assert not waiting.done()
        admission.forget("a")
        await waiting
        assert admission.entries == 50

    run(scenario)


def test_a_flood_of_acks_without_inits_stops_its_own_topology_alone() -> None:
    async def scenario() -> None:
        admission = Admission(100)
        admission.set_entries("a", 150, without_init=101)
        mine, others = (
            await started(admission.wait_until_readable("a")),
            await started(admission.wait_until_readable("b")),
        )
        assert others.done()
        assert not mine.done()
        admission.set_entries("a", 149, without_init=100)
        await mine

    run(scenario)
