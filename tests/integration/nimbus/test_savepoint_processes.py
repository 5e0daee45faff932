"""The processes that write savepoints for nimbus: how many there are, and that none outlives it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from tupletree._security import current
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
    found = Savepoints(str(tmp_path), conf)._client_conf(NOBODY)
    assert found == {**conf, "tls.ca": str(tmp_path / "certs/ca.pem"), "nimbus.seeds": [NOBODY]}


def test_the_token_is_in_no_file_which_would_outlive_a_nimbus_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(current, "_current", current.Security(token=lambda: "worth.a.lot"))

    async def run() -> None:
        before = children()
        running = Savepoints(str(tmp_path), {})
        running.begin("words-1-1", "words", "monday", 60.0, NOBODY)
        while not (new := children() - before):
            await asyncio.sleep(0.01)
        [pid] = new
        while b"TUPLETREE_SECURITY_TOKEN=worth.a.lot" not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            await asyncio.sleep(0.01)  # until the new process runs the command
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path.name for path in files if b"worth.a.lot" not in path.read_bytes()] == ["tupletree.yaml"]
        assert len(files) == 1
        await running.close()

    asyncio.run(run())


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
