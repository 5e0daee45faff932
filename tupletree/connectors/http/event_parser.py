"""The format of server-sent events (HTML standard, "Server-sent events"), parsed from chunks of bytes."""

from __future__ import annotations  # pure

import re
from dataclasses import dataclass
from typing import Final

LINE_END: Final = re.compile(b"\r\n|\n|\r")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of a stream. ``id``: where to resume after it; "" if the server says none. ``kind``: its type."""

    data: bytes
    id: str = ""
    kind: str = "message"


class EventParser:
    """The parser of one connection. ``last_id``: the id of the last event before it."""

    def __init__(self, max_bytes: int, last_id: str = "") -> None:
        self.retry_s = 0.0
        """The pause before a reconnect that the server asks for."""
        self._max_bytes = max_bytes
        self._last_id = last_id
        self._line = bytearray()  # the beginning of an incomplete line
        self._data: list[bytes] = []
        self._size = 0
        self._kind = ""
        self._skips_newline = False  # the last chunk ended between the two bytes of a line end
        self._is_first = True

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that a chunk completes. Raises ValueError if one is larger than ``max_bytes``."""
        if not chunk:
            return []
        if self._skips_newline and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skips_newline = chunk.endswith(b"\r")
        events = []
        *lines, rest = LINE_END.split(chunk)
        for end in lines:
            line, self._line = bytes(self._line + end), bytearray()
            if (event := self._take(line)) is not None:
                events.append(event)
        self._line += rest
        self._check(len(self._line))
        return events

    def _check(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            raise ValueError(f"an event is larger than {self._max_bytes} bytes")

    def _take(self, line: bytes) -> StreamEvent | None:
        """Take a whole line; return the event that it ends, if any."""
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            return self._end()
        self._check(len(line))
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._last_id = value.decode(errors="replace")
            case b"retry" if value.isdigit():
                self.retry_s = int(value[:9]) / 1000
        return None

    def _end(self) -> StreamEvent | None:
        data, kind = self._data, self._kind or "message"
        self._data, self._size, self._kind = [], 0, ""
        return StreamEvent(b"\n".join(data), self._last_id, kind) if data else None
