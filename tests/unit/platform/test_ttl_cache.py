"""The cache of values that are kept for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tupletree._daemon.ttl_cache import TtlCache


class Source:
    """What is loaded, and how often; with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.loads: list[str] = []

    def of(self, key: str) -> Callable[[], Awaitable[str]]:
        async def load() -> str:
            self.loads.append(key)
            value = f"{key} {len(self.loads)}"
            await asyncio.sleep(0)
            if key.startswith("bad"):
                raise ValueError(key)
            return value

        return load


def run(scenario: Callable[[Source, TtlCache[str, str]], Awaitable[None]], **limits: float) -> None:
    source = Source()
    cache: TtlCache[str, str] = TtlCache(10.0, weigh=len, clock=lambda: source.now_s, **limits)
    asyncio.run(scenario(source, cache))  # type: ignore[arg-type]


def test_a_value_is_loaded_again_when_its_time_is_over() -> None:
    async def scenario(source: Source, cache: TtlCache[str, str]) -> None:
        found = []
        for source.now_s in (0.0, 9.9, 10.0):
            found.append(await cache.get("a", source.of("a")))
        assert found == ["a 1", "a 1", "a 2"]

    run(scenario)


def test_requests_at_the_same_time_share_a_load_and_its_failure() -> None:
    async def scenario(source: Source, cache: TtlCache[str, str]) -> None:
        assert await asyncio.gather(*(cache.get("a", source.of("a")) for _ in range(3))) == ["a 1"] * 3
        failed = await asyncio.gather(*(cache.get("bad", source.of("bad")) for _ in range(3)), return_exceptions=True)
        assert list(map(type, failed)) == [ValueError] * 3
        with pytest.raises(ValueError, match="bad"):
            await cache.get("bad", source.of("bad"))
        assert source.loads == ["a", "bad", "bad"]

    run(scenario)


def test_the_oldest_values_give_way() -> None:
    async def scenario(source: Source, cache: TtlCache[str, str]) -> None:
        for key in "abc":
            await cache.get(key, source.of(key))
        for key in "cba":
            await cache.get(key, source.of(key))
        assert source.loads == ["a", "b", "c", "a"]

    run(scenario, max_entries=2)
    run(scenario, max_weight=6)


def test_what_is_cleared_while_it_is_loaded_is_not_kept() -> None:
    async def scenario(source: Source, cache: TtlCache[str, str]) -> None:
        loading = asyncio.create_task(cache.get("a", source.of("a")))
        while not source.loads:
            await asyncio.sleep(0)
        cache.clear()
        assert await cache.get("a", source.of("a")) == "a 2"
        assert await loading == "a 1"
        assert await cache.get("a", source.of("a")) == "a 2"

    run(scenario)
