"""Segments in files: written once, and read block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from tupletree.state.rocksdb.segments import (
    DELETED,
    HEAD,
    TAIL_BYTES,
    Block,
    Entry,
    block_of,
    check_head,
    damaged,
    decode_block,
    decode_index,
    decode_tail,
    encode_segment,
    merged,
    without_deletions,
)


def write_segment(path: str, entries: Iterable[Entry]) -> int:
    """Write a new file, whose content is on disk afterwards, and return its size. Raises OSError."""
    with open(path, "xb", buffering=1 << 20) as file:
        for piece in encode_segment(entries):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


class OpenedFile(Protocol):
    """A file that is written once, open for reading. Methods raise OSError or UnavailableError. Not thread-safe."""

    @property
    def path(self) -> str:
        """The file as messages name it."""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file; fewer at its end."""

    def close(self) -> None:
        """Release the resources of the file."""


class LocalFile:
    """A file on a disk or a mounted file system. Raises UsageError if it does not have the size."""

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115 - it is open as long as this object
        if os.fstat(self._file.fileno()).st_size != size:
            self._file.close()
            raise damaged(path)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._file.fileno(), length, offset)

    def close(self) -> None:
        self._file.close()


Opens = Callable[[str, int], OpenedFile]
"""Opens a file by its name and the size that it must have."""


class SegmentFile:
    """A segment, open for reading. Not thread-safe. All methods raise OSError, and UsageError if it is damaged.

    ``size``: what the manifest says.
    """

    def __init__(self, name: str, size: int, opens: Opens = LocalFile) -> None:
        self.name = name
        self._last: bytes | None = None  # key, once the last block was read
        self._file = opens(name, size)
        path = self._file.path
        try:
            check_head(path, self._file.read(0, len(HEAD)))
            tail = decode_tail(path, self._file.read(size - TAIL_BYTES, TAIL_BYTES), size)
            self._blocks = decode_index(path, self._file.read(tail.offset, tail.length), tail)
        except BaseException:
            self._file.close()
            raise

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, which can be DELETED; None if the segment does not have the key."""
        number = block_of(self._blocks, key)
        if number < 0 or (self._last is not None and key > self._last):
            return None
        items = self._decoded(self._blocks[number])
        if number + 1 == len(self._blocks):
            self._last = items[-2]
        try:
            return items[items[::2].index(key) * 2 + 1]
        except ValueError:
            return None

    def entries(self, after: bytes = b"") -> Iterator[Entry]:
        """Yield the entries whose key is greater than ``after``."""
        for number in range(max(0, block_of(self._blocks, after)), len(self._blocks)):
            items = iter(self._decoded(self._blocks[number]))
            entries = zip(items, items, strict=True)
            yield from entries if self._blocks[number].first > after else (one for one in entries if one[0] > after)

    def close(self) -> None:
        self._file.close()

    def _decoded(self, block: Block) -> list[bytes]:
        return decode_block(self._file.path, self._file.read(block.offset, block.length), block)


class SegmentFiles:
    """Several segments, the oldest first, read as one. Raises as SegmentFile does.

    ``before``: opened earlier; those that are needed again are taken over, the others closed.
    """

    def __init__(
        self, names_and_sizes: Iterable[tuple[str, int]], before: SegmentFiles | None = None, opens: Opens = LocalFile
    ) -> None:
        known: dict[str, SegmentFile] = {} if before is None else {file.name: file for file in before._files}
        self._files: list[SegmentFile] = []
        try:
            for name, size in names_and_sizes:
                self._files.append(known.pop(name) if name in known else SegmentFile(name, size, opens))
        except BaseException:
            self.close()
            raise
        finally:
            for file in known.values():
                file.close()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if it was deleted, or was never there."""
        for file in reversed(self._files):
            value = file.get(key)
            if value is not None:
                return None if value == DELETED else value
        return None

    def entries(self, after: bytes = b"", *, deletions: bool = False) -> Iterator[Entry]:
        """Yield the newest entry of each key greater than ``after``; with ``deletions`` also of deleted keys."""
        found = merged(file.entries(after) for file in self._files)
        return found if deletions else without_deletions(found)

    def in_turn(self) -> Iterator[Entry]:
        """Yield the entries of each segment, the oldest first, with those that newer segments replace or delete."""
        for file in self._files:
            yield from file.entries()

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __enter__(self) -> SegmentFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
