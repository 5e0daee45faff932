"""Searching logs by call: what one client does not take keeps no other waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tupletree.supervisor.authority import NewestEpoch
from tupletree.supervisor.service import MOST_SEARCHES, SupervisorService
from tupletree.supervisor.slot import Limits
from tupletree.supervisor.slots import Slots
from tupletree.v1 import supervisor_pb2 as pb

HANG_S = 30.0  # what takes so long hangs
REQUEST = pb.SearchLogRequest(topology_id="words-1-5", port=6700, pattern="line")


def test_whoever_does_not_take_what_was_found_keeps_nobody_waiting(tmp_path: Path) -> None:
    directory = tmp_path / "words-1-5" / "6700"
    directory.mkdir(parents=True)
    (directory / "worker.log").write_text("a line\n" * 10)

    async def search() -> None:
        slots = Slots([], Limits(), lambda *_: None)
        service = SupervisorService("s1", slots, NewestEpoch(), lambda: None, str(tmp_path))
        stalled = [service.SearchLog(REQUEST, None) for _ in range(MOST_SEARCHES + 1)]
        for one in stalled:
            async with asyncio.timeout(HANG_S):
                assert (await anext(one)).match.line == "a line"
        async with asyncio.timeout(HANG_S):
            found = [one async for one in service.SearchLog(REQUEST, None)]
        assert [one.WhichOneof("kind") for one in found] == ["match"] * 10 + ["end"]
        for one in stalled:
            await one.aclose()  # type: ignore[attr-defined]

    asyncio.run(search())
