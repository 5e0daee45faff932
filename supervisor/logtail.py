"""Reading a worker's log while the worker writes and rotates it.

The worker keeps ``worker.log`` and, ever older, ``worker.log.1``, ``worker.log.2``, … An open file stays what it is
when it is renamed, so a reader that has come to the end of its file looks where that file is now and goes on with the
next younger one. Offsets count from the start of the file that holds the bytes: they begin again at 0 after a rotation.

A worker that died before it had a log has only left ``worker.out``, which is then shown instead.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from tupletree.errors import NotFoundError

from .workers import OUTPUT

CHUNK_BYTES = 64 * 1024
_POLL_S = 0.2
_ROTATED = re.compile(r"worker\.log\.(\d+)")
_LOG = "worker.log"


async def tail(directory: Path, last_bytes: int, offset: int, follow: bool) -> AsyncIterator[tuple[int, bytes]]:
    """Pieces of the log with their offsets: from ``last_bytes`` before the end, or for 0 from ``offset`` on.

    Without ``follow`` it ends with what was there at the call; with it, never. Raises NotFoundError if there is no log
    (with ``follow``: waits for one).
    """
    reader = LogReader(directory)
    try:
        left = reader.start(last_bytes, offset)
        if left is None and not follow:
            raise NotFoundError(f"there is no log in {directory}")
        while follow or (left is not None and left > 0):
            at, data = reader.read(CHUNK_BYTES if follow else min(CHUNK_BYTES, left or 0))
            if data:
                left = (left or 0) - len(data)
                yield at, data
            elif follow:
                await asyncio.sleep(_POLL_S)
            else:
                return
    finally:
        reader.close()


class LogReader:
    """One reader's place in a log. Blocks on the disk only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None

    def start(self, last_bytes: int, offset: int) -> int | None:
        """Go to the start; how many bytes there are from there on, None if there is no log yet."""
        files = _files(self._directory)
        if not files:
            return None
        if last_bytes == 0:
            size = _size(files[-1])
            position = offset if offset <= size else 0  # it was rotated since
            self._open(files[-1], position)
            return size - position
        total = 0
        for path in reversed(files):
            size = _size(path)
            total += size
            if total >= last_bytes or path == files[0]:
                self._open(path, max(0, total - last_bytes))
                break
        return min(total, last_bytes)

    def read(self, limit: int) -> tuple[int, bytes]:
        """The next bytes and their offset; b"" if there are none now."""
        if self._file is None:
            files = _files(self._directory)
            if not files or not self._open(files[0], 0):
                return 0, b""
        at, data = self._read(limit)
        if data:
            return at, data
        following = self._next_file()
        if following is None:
            return at, b""
        at, data = self._read(limit)  # what was written between the last read and the rotation
        if data:
            return at, data
        self._open(following, 0)
        return self._read(limit)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, limit: int) -> tuple[int, bytes]:
        if self._file is None:
            return 0, b""
        at = self._file.tell()
        if os.fstat(self._file.fileno()).st_size < at:  # cut short by its writer
            at = self._file.seek(0)
        return at, self._file.read(limit)

    def _next_file(self) -> Path | None:
        """The file after the present one; None if that is the newest."""
        assert self._file is not None
        here = os.fstat(self._file.fileno()).st_ino
        files = _files(self._directory)
        inodes = [_inode(path) for path in files]
        if here not in inodes:
            return files[0] if files else None  # ours was deleted as the oldest, so all others are younger
        place = inodes.index(here) + 1
        return files[place] if place < len(files) else None

    def _open(self, path: Path, position: int) -> bool:
        try:
            file = open(path, "rb")  # noqa: SIM115 - held until the next one
        except FileNotFoundError:
            return False
        self.close()
        self._file = file
        file.seek(position)
        return True


def _files(directory: Path) -> list[Path]:
    """The log's files, oldest first."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    rotated = sorted(((int(match[1]), name) for name in names if (match := _ROTATED.fullmatch(name))), reverse=True)
    ordered = [name for _, name in rotated] + ([_LOG] if _LOG in names else [])
    if not ordered and OUTPUT in names and _size(directory / OUTPUT):
        ordered = [OUTPUT]
    return [directory / name for name in ordered]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1


def limit_output(path: Path, most_bytes: int) -> None:
    """Keep what a worker prints bounded: over the limit, it is copied to ``<name>.1`` and cut to nothing.

    The worker appends to the file, so it goes on at its new end; what it prints in between is lost.
    """
    if _size(path) <= most_bytes:
        return
    with open(path, "r+b") as file, open(path.with_name(f"{path.name}.1"), "wb") as kept:
        file.seek(-most_bytes, os.SEEK_END)
        while chunk := file.read(1024 * 1024):
            kept.write(chunk)
        file.truncate(0)
