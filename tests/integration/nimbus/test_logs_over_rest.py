"""Logs of workers as the REST interface reads them from a supervisor: page after page, across rotated files."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tupletree._rpc.server import start_server
from tupletree.errors import NotFoundError
from tupletree.nimbus.rpc_clients import Peers
from tupletree.nimbus.web.handlers import read_part
from tupletree.nimbus.web.logs import WorkerPlace, page, search_result
from tupletree.nimbus.web.requests import ApiCall
from tupletree.nimbus.web.supervisors import Supervisors
from tupletree.supervisor.fencing import EpochFence
from tupletree.supervisor.service import SupervisorService
from tupletree.supervisor.slot import Limits
from tupletree.supervisor.slots import Slots
from tupletree.v1.supervisor_pb2_grpc import add_SupervisorServicer_to_server

ID = "words-1-1700000000"
LOG = "worker.log"


@asynccontextmanager
async def supervisor(logs_dir: Path) -> AsyncIterator[tuple[Any, WorkerPlace]]:
    """What reaches supervisors, and the place of a worker at one of them."""
    slots = Slots([], Limits(), lambda *_: None)
    service = SupervisorService("s1", "127.0.0.1", slots, EpochFence(), lambda: None, str(logs_dir))
    server = await start_server([functools.partial(add_SupervisorServicer_to_server, service)], "127.0.0.1", 0)
    peers = Peers()
    try:
        yield peers, WorkerPlace(ID, "127.0.0.1", 6700, f"127.0.0.1:{server.port}")
    finally:
        await peers.close()
        await server.stop()


def written(logs_dir: Path, **texts: str) -> Path:
    """The directory of a worker with these logs; ``rotated`` is older than ``newest``."""
    directory = logs_dir / ID / "6700"
    directory.mkdir(parents=True)
    (directory / "worker.log.1").write_text(texts["rotated"])
    (directory / LOG).write_text(texts["newest"])
    return directory


def test_a_page_that_began_in_a_rotated_file_goes_on_in_the_newest(tmp_path: Path) -> None:
    directory = written(tmp_path, rotated="an old line\n" * 100, newest="a new line\n" * 3)

    async def scenario() -> None:
        async with supervisor(tmp_path) as (peers, place):
            read = functools.partial(Supervisors().read, peers, place, LOG)
            first = page(place, LOG, await read(None, 57), "")
            assert first["data"] == "an old line\n" * 2 + "a new line\n" * 3
            assert (first["start"], first["length"], first["next"]) == (1176, 57, 33)
            assert (await read(first["next"], 1000))[1:] == (b"", 33)
            with (directory / LOG).open("a") as log:
                log.write("the newest line\n")
            assert await read(first["next"], 1000) == (33, b"the newest line\n", 49)
            assert await read(33, 5) == (33, b"the n", 38)

    asyncio.run(scenario())


def test_a_search_goes_on_page_after_page_to_the_end_of_the_file(tmp_path: Path) -> None:
    written(tmp_path, rotated="an old line\n" * 20, newest="".join(f"line {number}\n" for number in range(7)))

    async def scenario() -> None:
        async with supervisor(tmp_path) as (peers, place):
            found: list[str] = []
            start: int | None = 0
            while start is not None:
                asked = ApiCall(query={"search-string": "line"})
                matches, incomplete = await Supervisors().search(peers, place, LOG, "line", 4, start)
                answer = search_result(asked, place, matches, start, 3, incomplete)
                found += [one["line"] for one in answer["matches"]]
                start = answer["nextByteOffset"]
            assert found == [f"line {number}" for number in range(7)]
            rotated, _ = await Supervisors().search(peers, place, "worker.log.1", "line", 1000, 0)
            assert len(rotated) == 20
            assert await Supervisors().search(peers, place, LOG, "line", 1000, 2**53) == ([], "")
            assert len((await Supervisors().search(peers, place, LOG, "line", 1000))[0]) == 27

    asyncio.run(scenario())


def test_a_profile_that_cannot_begin_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with supervisor(tmp_path) as (peers, place):
            supervisors = Supervisors()
            with pytest.raises(NotFoundError, match=f"no worker of {ID} runs on port 6700"):
                await supervisors.start_profile(peers, place, 5.0)
            assert supervisors.profiling(ID) == []

    asyncio.run(scenario())
    assert f"profile.failed topology={ID} host=127.0.0.1 slot=6700 cause='no worker of" in caplog.text


def test_a_log_of_nimbus_that_was_rotated_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "nimbus.log"
    log.write_text("after the rotation\n")
    assert read_part(str(log), 6, 3) == (6, b"the")
    assert read_part(str(log), 19, 100) == (19, b"")
    for start in (20, 2**53):
        assert read_part(str(log), start, 5) == (0, b"after")
