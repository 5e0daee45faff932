"""The processes that write savepoints for nimbus: how many there are, and that none outlives it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tupletree.errors import ConflictError
from tupletree.nimbus import savepoints
from tupletree.nimbus.savepoints import Savepoints

NOBODY = "127.0.0.1:9"  # the command looks for a leader there for half a minute


def children() -> set[str]:
    """The processes of this one."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_no_process_outlives_nimbus_and_there_are_two_at_most(tmp_path: Path) -> None:
    async def run() -> None:
        before = children()
        running = Savepoints(str(tmp_path), {})
        for name in ("first", "second"):
            running.begin(f"{name}-1-1", name, "monday", 60.0, NOBODY)
        with pytest.raises(
            ConflictError, match=r"^a savepoint of topology 'first' is being written to .*/first/monday: "
        ):
            running.begin("first-1-1", "first", "tuesday", 60.0, NOBODY)
        with pytest.raises(
            ConflictError, match=r"^nimbus is writing 2 savepoints of other topologies: try again later$"
        ):
            running.begin("third-1-1", "third", "monday", 60.0, NOBODY)
        while len(children() - before) < 2:
            await asyncio.sleep(0.01)
        await running.close()
        assert children() - before == set()
        for name in ("first", "second"):
            attempt = running.last(f"{name}-1-1")
            assert attempt is not None
            assert (attempt.state, attempt.error) == ("failed", "nimbus has ended")
        assert running.last("third-1-1") is None

    asyncio.run(run())


def test_the_command_finds_certificates_whose_paths_are_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    conf = {"tls.ca": "certs/ca.pem", "tls.cert": "/certs/nimbus.pem", "tls.key": None, "tls.expiry.warning.days": 30}
    found = Savepoints(str(tmp_path), conf)._client_conf(str(tmp_path), NOBODY)
    assert found == {**conf, "tls.ca": str(tmp_path / "certs/ca.pem"), "nimbus.seeds": [NOBODY]}


def test_a_savepoint_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoints, "MAX_S", 0.01)

    async def run() -> None:
        running = Savepoints(str(tmp_path), {})
        running.begin("words-1-1", "words", None, 60.0, NOBODY)
        while running._running:
            await asyncio.sleep(0.01)
        attempt = running.last("words-1-1")
        assert attempt is not None
        assert (attempt.state, attempt.error[:20]) == ("failed", "it took longer than ")

    asyncio.run(run())
