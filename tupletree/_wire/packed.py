"""Packed arrays of ids: unsigned little-endian integers, 8 bytes each for roots and edges, 4 for task ids."""

from __future__ import annotations  # pure

import sys
from array import array
from collections.abc import Iterable

from tupletree.errors import ProtocolError

_SWAP = sys.byteorder != "little"


def pack_u64(values: Iterable[int]) -> bytes:
    """Pack roots, edges or XOR values."""
    return _pack(array("Q", values if isinstance(values, (list, array)) else list(values)))


def unpack_u64(data: bytes) -> array[int]:
    """Unpack roots, edges or XOR values.

    Raises:
        ProtocolError: the length is not a multiple of 8.
    """
    return _unpack("Q", data)


def pack_u32(values: Iterable[int]) -> bytes:
    """Pack task ids."""
    return _pack(array("I", values))


def unpack_u32(data: bytes) -> array[int]:
    """Unpack task ids.

    Raises:
        ProtocolError: the length is not a multiple of 4.
    """
    return _unpack("I", data)


def _pack(items: array[int]) -> bytes:
    if _SWAP:
        items.byteswap()
    return items.tobytes()


def _unpack(code: str, data: bytes) -> array[int]:
    items = array(code)
    if len(data) % items.itemsize:
        raise ProtocolError(f"{len(data)} bytes are not a packed array of {items.itemsize}-byte ids")
    items.frombytes(data)
    if _SWAP:
        items.byteswap()
    return items
