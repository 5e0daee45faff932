"""Reading and searching logs by call: what one client does not take keeps no other waiting, and all have an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tupletree.errors import UnavailableError
from tupletree.supervisor.fencing import EpochFence
from tupletree.supervisor.service import MAX_READERS, MAX_SEARCHES, SupervisorService
from tupletree.supervisor.slot import Limits
from tupletree.supervisor.slots import Slots
from tupletree.v1 import supervisor_pb2 as pb

HANG_S = 30.0  # what takes so long hangs
REQUEST = pb.SearchLogRequest(topology_id="words-1-5", port=6700, pattern="line")


def service_of(logs_dir: Path) -> SupervisorService:
    """A supervisor without slots, where one worker has left a log of ten lines."""
    directory = logs_dir / "words-1-5" / "6700"
    directory.mkdir(parents=True)
    (directory / "worker.log").write_text("a line\n" * 10)
    return SupervisorService(
        "s1", "127.0.0.1", Slots([], Limits(), lambda *_: None), EpochFence(), lambda: None, str(logs_dir)
    )


def test_so_many_read_logs_at_the_same_time_and_no_more(tmp_path: Path) -> None:
    request = pb.TailLogRequest(topology_id="words-1-5", port=6700, follow=True)

    async def read() -> None:
        service = service_of(tmp_path)
        readers = [service.TailLog(request, None) for _ in range(MAX_READERS)]
        for one in readers:
            assert (await anext(one)).data
        with pytest.raises(UnavailableError, match="try again later"):
            await anext(service.TailLog(request, None))
        for one in readers:
            await one.aclose()  # type: ignore[attr-defined]
        last = service.TailLog(request, None)
        assert (await anext(last)).data
        await last.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())


def test_whoever_does_not_take_what_was_found_keeps_nobody_waiting(tmp_path: Path) -> None:
    async def search() -> None:
        service = service_of(tmp_path)
        stalled = [service.SearchLog(REQUEST, None) for _ in range(MAX_SEARCHES + 1)]
        for one in stalled:
            async with asyncio.timeout(HANG_S):
                assert (await anext(one)).match.line == "a line"
        async with asyncio.timeout(HANG_S):
            found = [one async for one in service.SearchLog(REQUEST, None)]
        assert [one.WhichOneof("kind") for one in found] == ["match"] * 10 + ["end"]
        for one in stalled:
            await one.aclose()  # type: ignore[attr-defined]

    asyncio.run(search())
