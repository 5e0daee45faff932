"""Reading a worker's log while the worker writes and rotates it.

The worker keeps ``worker.log`` and the older files ``worker.log.1``, ``worker.log.2``, … (for other names see
files.py). An open file survives renaming, so a reader at the end of its file looks up the file's current name and
continues with the next newer file. Offsets count from the start of each file: they restart at 0 after a rotation. A
reader that resumes names the file by its id, which survives renaming.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tupletree.errors import NotFoundError

from ..files import open_output, open_regular
from .files import LOG, files_of, inode_of, open_log, size_of

CHUNK_BYTES = 64 * 1024
_POLL_S = 0.2


@dataclass(frozen=True)
class Piece:
    """Bytes of a log with their position."""

    file_id: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Start:
    """The start position: ``last_bytes`` before the end; if that is 0, ``offset`` in ``file_id`` or the newest file."""

    last_bytes: int = 0
    offset: int = 0
    file_id: int = 0


async def tail(directory: Path, start: Start, follow: bool, name: str = LOG) -> AsyncIterator[Piece]:
    """Yield the pieces of a log from ``start`` on.

    Without ``follow``, end at the size that the log had at the call, and raise NotFoundError if there is no log. With
    ``follow``, never end, and wait for a log if there is none.
    """
    reader = LogReader(directory, name)
    try:
        left = reader.start(start)
        if left is None and not follow:
            raise NotFoundError(f"there is no {name} in {directory}")
        while follow or (left is not None and left > 0):
            piece = reader.read(CHUNK_BYTES if follow else min(CHUNK_BYTES, left or 0))
            if piece.data:
                left = (left or 0) - len(piece.data)
                yield piece
            elif follow:
                await asyncio.sleep(_POLL_S)
            else:
                return
    finally:
        reader.close()


class LogReader:
    """A reader's position in a log. Blocks on disk I/O only."""

    def __init__(self, directory: Path, name: str = LOG) -> None:
        self._directory = directory
        self._name = name
        self._file: BinaryIO | None = None

    def start(self, start: Start) -> int | None:
        """Seek to the start. Returns the number of bytes from there on, or None if there is no log yet."""
        files = files_of(self._directory, self._name)
        if not files:
            return None
        if start.last_bytes == 0:
            return self._start_at(files, start)
        total = 0
        for path in reversed(files):
            size = size_of(path)
            total += size
            if total >= start.last_bytes or path == files[0]:
                self._open(path, max(0, total - start.last_bytes))
                break
        return min(total, start.last_bytes)

    def _start_at(self, files: list[Path], start: Start) -> int:
        inodes = [inode_of(path) for path in files]
        place = len(files) - 1
        if start.file_id:  # a file that was deleted was older than all remaining files
            place = inodes.index(start.file_id) if start.file_id in inodes else 0
        is_it = not start.file_id or inodes[place] == start.file_id
        size = size_of(files[place])
        position = start.offset if is_it and start.offset <= size else 0  # else the file was rotated or truncated since
        self._open(files[place], position)
        return size - position + sum(map(size_of, files[place + 1 :]))

    def read(self, limit: int) -> Piece:
        """Return the next piece; its data is b"" if there is none now."""
        if self._file is None:
            files = files_of(self._directory, self._name)
            if not files or not self._open(files[0], 0):
                return Piece(0, 0, b"")
        piece = self._read(limit)
        if piece.data:
            return piece
        following = self._next_file()
        if following is None:
            return piece
        piece = self._read(limit)  # written between the last read and the rotation
        if piece.data:
            return piece
        self._open(following, 0)
        return self._read(limit)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, limit: int) -> Piece:
        if self._file is None:
            return Piece(0, 0, b"")
        at = self._file.tell()
        facts = os.fstat(self._file.fileno())
        if facts.st_size < at:  # truncated by its writer
            at = self._file.seek(0)
        return Piece(facts.st_ino, at, self._file.read(limit))

    def _next_file(self) -> Path | None:
        """Return the file after the current one, or None if the current one is the newest."""
        assert self._file is not None
        here = os.fstat(self._file.fileno()).st_ino
        files = files_of(self._directory, self._name)
        inodes = [inode_of(path) for path in files]
        if here not in inodes:
            return files[0] if files else None  # the open file is deleted: all others are newer
        place = inodes.index(here) + 1
        return files[place] if place < len(files) else None

    def _open(self, path: Path, position: int) -> bool:
        file = open_log(path)
        if file is None:
            return False
        self.close()
        self._file = file
        file.seek(position)
        return True


def limit_output(path: Path, max_bytes: int) -> None:
    """Bound a worker's output: above the limit, copy its last ``max_bytes`` to ``<name>.1`` and truncate the file.

    The worker appends, so it continues at the new end. Output between copying and truncation is lost.
    """
    if size_of(path) <= max_bytes:
        return
    with (
        open_regular(path, os.O_RDWR, "r+b") as file,
        open_output(path.with_name(f"{path.name}.1"), is_new=True) as kept,
    ):
        file.seek(-max_bytes, os.SEEK_END)
        while chunk := file.read(1024 * 1024):
            kept.write(chunk)
        file.truncate(0)
