"""The headers of a message of AMQP 0-9-1, as they are in the frame before its body.

pika cuts numbers with a fraction to whole ones, and fails for a time after the year 9999: the connection ends, the
queue delivers the message again, and nothing behind it is ever processed.

    frame   2 | channel 2 | size 4 | class 2, weight 2, body size 8 | flags 2 | content type s | encoding s
            | headers: length 4, table | other properties | 206
    table   (name s | kind 1 | value) …
    s       length 1 | text

Numbers are big-endian. Properties that the flags do not name are absent.
"""

from __future__ import annotations  # pure

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

FRAME_HEADER: Final = b"\2"
_BEFORE_FLAGS: Final = 19
_TYPE, _ENCODING, _HEADERS, _MORE_FLAGS = 1 << 15, 1 << 14, 1 << 13, 1
_NUMBERS: Final[Mapping[bytes, str]] = {
    b"b": ">b", b"B": ">B", b"s": ">h", b"U": ">h", b"u": ">H", b"I": ">i", b"i": ">I", b"l": ">q", b"L": ">q",
    b"f": ">f", b"d": ">d",
}  # fmt: skip


def frame_end(data: bytes) -> int:
    """Return the number of bytes of the frame that data begins with; 0 if it is not complete."""
    if len(data) < 7:
        return 0
    end: int = 8 + struct.unpack_from(">I", data, 3)[0]
    return end if end <= len(data) else 0


def without_headers(frame: bytes) -> tuple[bytes, bytes]:
    """Return a frame with properties as it is without the headers, and the table of these; b"" if there are none."""
    at = _BEFORE_FLAGS
    [flags] = struct.unpack_from(">H", frame, at)
    if not flags & _HEADERS:
        return frame, b""
    after_flags = at + 2
    at, more = after_flags, flags
    while more & _MORE_FLAGS:
        [more] = struct.unpack_from(">H", frame, at)
        at += 2
    for one in (_TYPE, _ENCODING):
        if flags & one:
            at += 1 + frame[at]
    end = at + 4 + struct.unpack_from(">I", frame, at)[0]
    content = b"".join(
        [frame[7:_BEFORE_FLAGS], struct.pack(">H", flags & ~_HEADERS), frame[after_flags:at], frame[end:-1]]
    )
    return b"".join([frame[:3], struct.pack(">I", len(content)), content, frame[-1:]]), frame[at + 4 : end]


def decoded_table(data: bytes) -> dict[Any, Any]:
    """Return the headers of a table. A text that is not UTF-8 is bytes; a time that is no datetime, its seconds.

    Raises ValueError, struct.error or RecursionError if it cannot be read.
    """
    return _Fields(data).table(len(data))


class _Fields:
    """The fields of a table, read one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def table(self, end: int) -> dict[Any, Any]:
        found = {}
        while self._at < end:
            name = _text(self._bytes(self._number(">B")))
            found[name] = self._value()
        return found

    def _value(self) -> Any:
        kind = self._bytes(1)
        if form := _NUMBERS.get(kind):
            return self._number(form)
        match kind:
            case b"S":
                return _text(self._bytes(self._number(">I")))
            case b"x":
                return self._bytes(self._number(">I"))
            case b"t":
                return self._number(">B") != 0
            case b"V":
                return None
        return self._composed(kind)

    def _composed(self, kind: bytes) -> Any:
        match kind:
            case b"T":
                return _time(self._number(">Q"))
            case b"D":
                digits = self._number(">B")
                return Decimal(self._number(">i")).scaleb(-digits)
            case b"F":
                length = self._number(">I")
                return self.table(self._at + length)
            case b"A":
                length = self._number(">I")
                end, found = self._at + length, []
                while self._at < end:
                    found.append(self._value())
                return found
        raise ValueError(f"a header has the unknown type {kind!r}")

    def _number(self, form: str) -> Any:
        at = self._at
        self._at += struct.calcsize(form)
        return struct.unpack_from(form, self._data, at)[0]

    def _bytes(self, length: int) -> bytes:
        at = self._at
        self._at += length
        return self._data[at : self._at]


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _time(seconds: int) -> datetime | int:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return seconds
