"""The calls of a client on one stream to a DRPC server. Pure.

    begin -> unsent -> taken for a message: sent -> ended once: by its reply, by its caller, or with the stream

A call that is unsent when the stream breaks, or that the server has not read, can be made again elsewhere: nothing has
processed it. A call that is sent was possibly processed, and is not made again.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from tupletree.errors import OverloadedError, UsageError

MAX_ARGS_BYTES: Final = 15 * 1024 * 1024
"""Of one call, so that its message fits what a server accepts."""

MAX_CALLS: Final = 1000
"""Of one message; a server refuses more."""

_MAX_BATCH_BYTES: Final = 4 * 1024 * 1024  # unless one call is longer

Waiting = TypeVar("Waiting")


@dataclass(frozen=True, slots=True)
class OpenCall(Generic[Waiting]):
    """A call that is not sent. ``waiting``: who waits for its reply."""

    number: int
    function: str
    args: bytes
    timeout_s: float
    waiting: Waiting


class OpenCalls(Generic[Waiting]):
    """The calls that have not ended, at most ``max_open``."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._unsent: dict[int, OpenCall[Waiting]] = {}
        self._sent: dict[int, Waiting] = {}
        self._cancelled: list[int] = []
        self._last = 0

    def __len__(self) -> int:
        return len(self._unsent) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """True if there is something to send."""
        return bool(self._unsent or self._cancelled)

    def begin(self, function: str, args: bytes, timeout_s: float, waiting: Waiting) -> int:
        """Add a call and return its number. Raises OverloadedError, and UsageError for arguments that are too long."""
        if len(args) > MAX_ARGS_BYTES:
            raise UsageError(f"the arguments of {function!r} have {len(args)} bytes, expected at most {MAX_ARGS_BYTES}")
        if len(self) >= self._max_open:
            raise OverloadedError(
                f"the client waits for {self._max_open} calls of the DRPC server: call again when some are answered"
            )
        self._last += 1
        self._unsent[self._last] = OpenCall(self._last, function, args, timeout_s, waiting)
        return self._last

    def take(self) -> tuple[list[OpenCall[Waiting]], list[int]]:
        """Return calls for a message, which are then sent, and the numbers of cancelled calls."""
        batch: list[OpenCall[Waiting]] = []
        size = 0
        for number, call in self._unsent.items():
            if len(batch) == MAX_CALLS or (batch and size + len(call.args) > _MAX_BATCH_BYTES):
                break
            size += len(call.args)
            batch.append(call)
            self._sent[number] = call.waiting
        for call in batch:
            del self._unsent[call.number]
        cancelled, self._cancelled = self._cancelled, []
        return batch, cancelled

    def end(self, number: int) -> Waiting | None:
        """Remove a sent call that has its reply; None if there is no such call, or no longer."""
        return self._sent.pop(number, None)

    def cancel(self, number: int) -> bool:
        """Remove a call that nobody waits for. True if it was not sent."""
        if self._unsent.pop(number, None) is not None:
            return True
        if self._sent.pop(number, None) is not None:
            self._cancelled.append(number)
        return False

    def unread(self, read_until: int) -> list[Waiting]:
        """Remove and return the calls with higher numbers than the server has read."""
        found = [call.waiting for call in self._unsent.values()]
        self._unsent.clear()
        later = [number for number in self._sent if number > read_until]
        return found + [self._sent.pop(number) for number in later]

    def broken(self) -> tuple[list[Waiting], list[Waiting]]:
        """Remove all calls: return those that are unsent, and those that were sent."""
        sent = list(self._sent.values())
        self._sent.clear()
        return self.unread(self._last), sent
