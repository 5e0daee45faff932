"""Reading a log while it is written and rotated, on a real directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tupletree.errors import NotFoundError
from tupletree.supervisor.logtail import LogReader, limit_output, tail


def rotate(directory: Path, backups: int = 2) -> None:
    """As logging's RotatingFileHandler does."""
    (directory / f"worker.log.{backups}").unlink(missing_ok=True)
    for number in range(backups - 1, 0, -1):
        if (directory / f"worker.log.{number}").exists():
            os.rename(directory / f"worker.log.{number}", directory / f"worker.log.{number + 1}")
    os.rename(directory / "worker.log", directory / "worker.log.1")


def append(directory: Path, text: str) -> None:
    with open(directory / "worker.log", "a") as file:
        file.write(text)


def read_all(directory: Path, last_bytes: int = 0, offset: int = 0) -> bytes:
    async def gather() -> bytes:
        return b"".join([data async for _, data in tail(directory, last_bytes, offset, follow=False)])

    return asyncio.run(gather())


def test_from_an_offset_or_from_the_end(tmp_path: Path) -> None:
    append(tmp_path, "0123456789")
    assert read_all(tmp_path) == b"0123456789"
    assert read_all(tmp_path, offset=4) == b"456789"
    assert read_all(tmp_path, last_bytes=3) == b"789"
    assert read_all(tmp_path, last_bytes=100) == b"0123456789"


def test_the_end_reaches_back_into_rotated_files(tmp_path: Path) -> None:
    for text in ("aaa", "bbb"):
        append(tmp_path, text)
        rotate(tmp_path)
    append(tmp_path, "c")
    assert read_all(tmp_path, last_bytes=5) == b"abbbc"
    assert read_all(tmp_path, last_bytes=50) == b"aaabbbc"


def test_an_offset_from_before_a_rotation_begins_the_new_file(tmp_path: Path) -> None:
    append(tmp_path, "new")
    assert read_all(tmp_path, offset=500) == b"new"


def test_no_log_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_all(tmp_path / "nowhere")


def test_a_worker_that_never_logged_has_left_its_output(tmp_path: Path) -> None:
    (tmp_path / "worker.out").write_text("ModuleNotFoundError")
    assert read_all(tmp_path, last_bytes=100) == b"ModuleNotFoundError"
    append(tmp_path, "log")
    assert read_all(tmp_path, last_bytes=100) == b"log"


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_a_reader_loses_nothing_over_rotations_that_leave_a_file_to_read(tmp_path: Path, rotations: int) -> None:
    append(tmp_path, "first ")
    reader = LogReader(tmp_path)
    assert reader.start(0, 0) == 6
    assert reader.read(100) == (0, b"first ")
    append(tmp_path, "written before the rotation ")
    for number in range(rotations):
        rotate(tmp_path, backups=9)
        append(tmp_path, f"file {number} ")
    seen = b"".join(reader.read(100)[1] for _ in range(rotations + 2))
    assert seen == b"written before the rotation " + b"".join(b"file %d " % number for number in range(rotations))
    reader.close()


def test_a_reader_whose_file_was_deleted_goes_on_with_the_oldest_left(tmp_path: Path) -> None:
    append(tmp_path, "x")
    reader = LogReader(tmp_path)
    reader.start(0, 0)
    reader.read(100)
    for number in range(4):
        rotate(tmp_path)
        append(tmp_path, f"{number}")
    assert b"".join(reader.read(100)[1] for _ in range(4)) == b"123"
    reader.close()


def test_a_file_cut_short_is_read_from_its_start(tmp_path: Path) -> None:
    append(tmp_path, "a long line")
    reader = LogReader(tmp_path)
    reader.start(0, 0)
    reader.read(100)
    (tmp_path / "worker.log").write_text("new")
    assert reader.read(100) == (0, b"new")
    reader.close()


def test_following_waits_for_the_log_and_for_more(tmp_path: Path) -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        pieces: AsyncIterator[tuple[int, bytes]] = tail(tmp_path, 0, 0, follow=True)
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        append(tmp_path, "one")
        seen = [await asyncio.wait_for(first, 5)]
        second = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        append(tmp_path, "two")
        return [*seen, await asyncio.wait_for(second, 5)]

    assert asyncio.run(scenario()) == [(0, b"one"), (3, b"two")]


def test_output_over_the_limit_keeps_its_end_and_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "worker.out"
    with open(path, "ab") as writer:
        writer.write(b"x" * 50 + b"y" * 50)
        writer.flush()
        limit_output(path, 100)
        assert path.stat().st_size == 100
        writer.write(b"z")
        writer.flush()
        limit_output(path, 100)
        assert path.stat().st_size == 0
        writer.write(b"goes on")
    assert path.read_bytes() == b"goes on"
    assert (tmp_path / "worker.out.1").read_bytes() == b"x" * 49 + b"y" * 50 + b"z"
