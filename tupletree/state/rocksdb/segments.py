"""The format of a segment: entries that changed, sorted by key, in one file that is written once.

    head     b"TTSEG", format (one byte)
    block*   a msgpack array: key, value, key, value, ...     keys ascend; a value of no bytes: the key is deleted
    index    a msgpack array: first key, offset, length, CRC-32 of the block, first key, ...
    tail     offset of the index (8 bytes), its length (8), its CRC-32 (4), b"END\\n"

Encoded keys and values are never empty, so an empty value is free to mean a deletion. The index finds the block of a
key, and the checksums cover every byte that is read.
"""

from __future__ import annotations  # pure

import heapq
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

import msgpack

from tupletree.errors import UsageError

FORMAT: Final = 1
BLOCK_BYTES: Final = 64 * 1024
PAGE: Final = 1_000
DELETED: Final = b""

_MAGIC: Final = b"TTSEG"
HEAD: Final = _MAGIC + bytes([FORMAT])
_TAIL: Final = struct.Struct(">QQI4s")
_END: Final = b"END\n"
TAIL_BYTES: Final = _TAIL.size

Entry = tuple[bytes, bytes]
"""An encoded key, and its encoded value or DELETED."""


class Block(NamedTuple):
    """The place of a block in its file."""

    first: bytes
    offset: int
    length: int
    crc: int


class Tail(NamedTuple):
    """The place of the index in its file."""

    offset: int
    length: int
    crc: int


def damaged(path: str) -> UsageError:
    """Return the error of a file that does not have the content that was written."""
    return UsageError(
        f"{path} is damaged, since it does not have the checksum that it was written with: restore the directory of "
        f"the state from a backup, or begin with another topology.state.id"
    )


def encode_segment(entries: Iterable[Entry], block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the pieces of a segment. Keys must ascend. A block ends with the entry that reaches ``block_bytes``."""
    yield HEAD
    index: list[bytes | int] = []
    offset = len(HEAD)
    block: list[bytes] = []
    size = 0

    def packed() -> bytes:
        nonlocal offset
        data: bytes = msgpack.packb(block)
        index.extend((block[0], offset, len(data), crc32(data)))
        offset += len(data)
        return data

    for key, value in entries:
        block.append(key)
        block.append(value)
        size += len(key) + len(value)
        if size >= block_bytes:
            yield packed()
            block, size = [], 0
    if block:
        yield packed()
    data: bytes = msgpack.packb(index)
    yield data
    yield _TAIL.pack(offset, len(data), crc32(data), _END)


def check_head(path: str, head: bytes) -> None:
    """Refuse a file that is no segment, or one of a newer format."""
    if head[:-1] != _MAGIC or head[-1] < 1:
        raise damaged(path)
    if head[-1] > FORMAT:
        raise UsageError(
            f"{path} has format {head[-1]}, and this version of Tupletree knows formats up to {FORMAT}: a newer "
            f"version has written it"
        )


def decode_tail(path: str, data: bytes, size: int) -> Tail:
    """Return the place of the index, given the last TAIL_BYTES of a segment of ``size`` bytes."""
    if len(data) != TAIL_BYTES:
        raise damaged(path)
    offset, length, crc, end = _TAIL.unpack(data)
    if end != _END or offset + length != size - TAIL_BYTES:
        raise damaged(path)
    return Tail(offset, length, crc)


def decode_index(path: str, data: bytes, tail: Tail) -> list[Block]:
    """Return all blocks of a segment, in the order of their keys."""
    if len(data) != tail.length or crc32(data) != tail.crc:
        raise damaged(path)
    index = msgpack.unpackb(data)
    return [Block(*index[at : at + 4]) for at in range(0, len(index), 4)]


def decode_block(path: str, data: bytes, block: Block) -> list[bytes]:
    """Return keys and values of a block, in turn."""
    if len(data) != block.length or crc32(data) != block.crc:
        raise damaged(path)
    items: list[bytes] = msgpack.unpackb(data)
    return items


def block_of(blocks: Sequence[Block], key: bytes) -> int:
    """Return the number of the only block that can have a key; -1 if the key is before all blocks."""
    return bisect_right(blocks, key, key=lambda block: block.first) - 1


def merged(segments: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Yield the newest entry of each key, in the order of keys. ``segments``: sorted, the oldest first."""
    last = None
    for key, _, value in heapq.merge(*(_aged(entries, -age) for age, entries in enumerate(segments))):
        if key != last:
            last = key
            yield key, value


def _aged(entries: Iterable[Entry], age: int) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, age, value) for key, value in entries)


def in_pages(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries, a page at a time."""
    left = iter(entries)
    while page := list(islice(left, PAGE)):
        yield page


def without_deletions(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries that are there."""
    return (entry for entry in entries if entry[1] != DELETED)
