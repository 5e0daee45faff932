"""The attempts of one call: at each server in turn, within one time for all of them."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tupletree.drpc.requests import Kind
from tupletree.errors import DRPCTimeoutError, UnavailableError

SLACK_S: Final = 10.0
"""The server ends a request in time; this much later, a client no longer waits for a server that is silent."""


class UnreadError(UnavailableError):
    """The server has retired the stream before it read the call: another stream to it can make the call."""


@dataclass(slots=True)
class Attempts:
    """A call until a server has accepted it.

    Attributes:
        timeout_s: the time for all attempts together; 0: that of the server.
        ends_s: the time at which no further attempt begins.
        refused: the error of the last attempt.
    """

    function: str
    args: bytes
    timeout_s: float
    ends_s: float
    refused: UnavailableError | None = None

    def at(self, servers: Sequence[str]) -> Iterator[str]:
        """Yield the servers to call: each once, or twice if it has retired its stream before it read the call."""
        for server in servers:
            yield server
            if isinstance(self.refused, UnreadError):
                yield server

    def call(self, now_s: float) -> tuple[str, bytes, float, float]:
        """Return the arguments of the next attempt: with the time that is left.

        Raises DRPCTimeoutError if none is left: then no server has accepted the call.
        """
        left_s = self.ends_s - now_s
        if left_s <= 0 and self.refused is not None:
            why = f"no DRPC server has accepted the call of function {self.function!r} in time: {self.refused}"
            raise DRPCTimeoutError(why, Kind.TIMEOUT.value) from self.refused
        is_first = self.refused is None
        return self.function, self.args, self.timeout_s if is_first else left_s, left_s + SLACK_S
