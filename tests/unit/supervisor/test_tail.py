"""Reading a log while it is written and rotated, on a real directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tupletree.errors import NotFoundError, UsageError
from tupletree.supervisor.logs.files import LOG, check_name, list_files
from tupletree.supervisor.logs.tail import LogReader, Piece, Start, limit_output, tail


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


def read_all(directory: Path, last_bytes: int = 0, offset: int = 0, name: str = LOG) -> bytes:
    async def gather() -> bytes:
        return b"".join(
            [piece.data async for piece in tail(directory, Start(last_bytes, offset), follow=False, name=name)]
        )

    return asyncio.run(gather())


def place(piece: Piece) -> tuple[int, bytes]:
    return piece.offset, piece.data


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
    assert reader.start(Start()) == 6
    assert place(reader.read(100)) == (0, b"first ")
    append(tmp_path, "written before the rotation ")
    for number in range(rotations):
        rotate(tmp_path, backups=9)
        append(tmp_path, f"file {number} ")
    seen = b"".join(reader.read(100).data for _ in range(rotations + 2))
    assert seen == b"written before the rotation " + b"".join(b"file %d " % number for number in range(rotations))
    reader.close()


def test_a_reader_whose_file_was_deleted_goes_on_with_the_oldest_left(tmp_path: Path) -> None:
    append(tmp_path, "x")
    reader = LogReader(tmp_path)
    reader.start(Start())
    reader.read(100)
    for number in range(4):
        rotate(tmp_path)
        append(tmp_path, f"{number}")
    assert b"".join(reader.read(100).data for _ in range(4)) == b"123"
    reader.close()


def test_a_file_cut_short_is_read_from_its_start(tmp_path: Path) -> None:
    append(tmp_path, "a long line")
    reader = LogReader(tmp_path)
    reader.start(Start())
    reader.read(100)
    (tmp_path / "worker.log").write_text("new")
    assert place(reader.read(100)) == (0, b"new")
    reader.close()


def test_following_waits_for_the_log_and_for_more(tmp_path: Path) -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        pieces: AsyncIterator[Piece] = tail(tmp_path, Start(), follow=True)
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        append(tmp_path, "one")
        seen = [place(await asyncio.wait_for(first, 5))]
        second = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        append(tmp_path, "two")
        return [*seen, place(await asyncio.wait_for(second, 5))]

    assert asyncio.run(scenario()) == [(0, b"one"), (3, b"two")]


@pytest.mark.parametrize("rotations", [0, 1, 2])
def test_a_reader_that_comes_back_goes_on_where_it_was_though_the_log_was_rotated(
    tmp_path: Path, rotations: int
) -> None:
    append(tmp_path, "read before ")
    reader = LogReader(tmp_path)
    reader.start(Start())
    last = reader.read(100)
    reader.close()
    append(tmp_path, "written meanwhile ")
    for number in range(rotations):
        rotate(tmp_path, backups=9)
        append(tmp_path, f"file {number} ")
    again = LogReader(tmp_path)
    left = again.start(Start(offset=last.offset + len(last.data), file_id=last.file_id))
    seen = b"".join(again.read(100).data for _ in range(rotations + 2))
    assert seen == b"written meanwhile " + b"".join(b"file %d " % number for number in range(rotations))
    assert left == len(seen)
    again.close()


def test_other_files_of_a_worker_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl.1").write_text("old ")
    (tmp_path / "events.jsonl").write_text("new")
    append(tmp_path, "log")
    assert read_all(tmp_path, last_bytes=100, name="events.jsonl") == b"old new"
    assert read_all(tmp_path, name="events.jsonl.1") == b"old "


@pytest.mark.parametrize(
    "name", ["../secret", "worker.log.0", "worker.log.x", "launch.json", "profile-x.svg", "/etc/x"]
)
def test_nothing_else_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a file of a worker"):
        check_name(name)


def test_a_link_or_a_pipe_in_the_place_of_a_log_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", tmp_path / "worker.log")
    os.mkfifo(tmp_path / "events.jsonl")
    assert read_all(tmp_path, last_bytes=100) == b""
    assert read_all(tmp_path, name="events.jsonl") == b""
    assert list_files(tmp_path, 1) == []


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
