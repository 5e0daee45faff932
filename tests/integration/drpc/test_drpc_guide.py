"""The examples of the guide to DRPC run as a reader pastes them, and print what the guide says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from document_blocks import DOCS, blocks_of, run_python
from drpc_by_hand import Topology
from drpc_harness import DrpcProcess
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message

from tupletree._rpc.channels import channel
from tupletree.drpc import DRPCClient, LocalDRPC
from tupletree.errors import DRPCError, TupletreeError
from tupletree.testing import DevCluster, LocalCluster, wait_until

GUIDE = DOCS / "guides" / "drpc.md"
CLUSTER = "## On a cluster"
Handler = Callable[[Any], Awaitable[object]]


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_python(GUIDE, before=CLUSTER)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and "".join(f"    {line}\n" for line in printed) in GUIDE.read_text()


WRONG: list[object] = [None, True, "forty", "", [], {}, {"age": "41"}, {"age": None}, {"age": -1}, 10**400]


def test_wrong_arguments_of_the_functions_of_the_guide_fail_their_request_alone() -> None:
    names = run_python(GUIDE, before=CLUSTER)
    with LocalDRPC() as drpc, LocalCluster() as cluster:
        cluster.submit("scoring", names["scoring"](drpc=drpc))
        cluster.submit("reach", names["builder"].create_local_topology(drpc))
        for wrong in [*WRONG, {"age": 10**400}, {"age": float("1e300")}]:
            with pytest.raises(
                DRPCError, match=r"component 'score': FailedException: expected an age from 0 to 150, n"
            ):
                drpc.execute("score", wrong)
        for wrong in (one for one in WRONG if not isinstance(one, str)):
            with pytest.raises(DRPCError, match=r"FailedException: expected the address of a page, as text"):
                drpc.execute("reach", wrong)
        assert drpc.execute("score", {"age": 41.5}) == 0.415 and drpc.execute("reach", "foo.com/1") == 5


class FastAPI(Starlette):
    """The decorator of FastAPI that the guide uses, on the framework beneath it."""

    def post(self, path: str) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            async def endpoint(request: Request) -> JSONResponse:
                return JSONResponse(await handler(await request.json()))

            self.router.routes.append(Route(path, endpoint, methods=["POST"]))
            return handler

        return add


async def posted(app: FastAPI, value: object) -> tuple[int, Any]:
    """Return the status and the value that an application answers."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": json.dumps(value).encode()}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": "/score", "query_string": b"", "headers": []}, receive, send)
    start, *parts = sent
    return start["status"], json.loads(b"".join(part.get("body", b"") for part in parts))


def test_the_web_page_answers_with_the_reason(server: DrpcProcess) -> None:
    replaced = {
        "from fastapi import FastAPI\n": "",
        "from fastapi.responses": "from starlette.responses",
        "drpc-1,drpc-2": server.address,
        "timeout_s=2": "timeout_s=0.2",
    }
    names = run_python(GUIDE, {"__name__": "document", "FastAPI": FastAPI}, after=CLUSTER, replaced=replaced)
    page = names["app"]

    async def run() -> None:
        with channel(server.address) as opened:
            topology = Topology(opened, "score")
            assert await posted(page, {"age": 41}) == (200, {"score": {"age": 41}})
            assert await posted(page, "fail") == (502, {"error": "asked to fail"})
            assert await posted(page, "keep") == (504, {"error": "function 'score' has not answered in time"})
            topology.close()
        await asyncio.to_thread(server.close)
        while (answer := await posted(page, {"age": 41}))[0] != 503:  # until the client has noticed it
            assert answer[0] == 502
        assert "cannot be reached" in answer[1]["error"]
        await names["client"].aclose()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.long
def test_the_function_of_the_guide_on_a_cluster(tmp_path: Path) -> None:
    text = next(iter(blocks_of(GUIDE))).text
    program = text[: text.index("with LocalDRPC")] + "topology = scoring()\n"
    (tmp_path / "scoring.py").write_text(program)
    with DevCluster(slots=1, drpc_servers=1) as cluster:
        seeds = ",".join(cluster.conf["nimbus.seeds"])
        command = [sys.executable, "-m", "tupletree.cli.main", "submit", "--nimbus", seeds, "scoring.py"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        with DRPCClient(conf=cluster.conf) as client:

            def answer() -> object:
                try:
                    return client.execute("score", {"age": 41}, timeout_s=2)
                except TupletreeError:
                    return None

            wait_until(lambda: answer() == 0.41, 60, what="the topology answers")
