"""The state of a stream of calls that asyncio and threads share: requests to write, replies, and its end.

Used by one thread at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from tupletree._rpc.status import from_rpc_error
from tupletree.drpc.attempts import UnreadError
from tupletree.drpc.open_calls import OpenCalls
from tupletree.drpc.requests import Kind
from tupletree.errors import DRPCError, DRPCTimeoutError, ProtocolError, TupletreeError, UnavailableError
from tupletree.v1 import drpc_pb2 as pb

MAX_OPEN: Final = 10_000
"""Calls that a stream waits for."""

_WRITE_FAILED: Final = "Internal error from Core"
"""gRPC's words for a write to a stream that has just broken; the status of the break itself is lost then."""


class Waiting(Protocol):
    """A future of asyncio or of threads."""

    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def set_result(self, result: pb.NumberedReply, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class StreamState:
    """The calls of a stream.

    Attributes:
        is_open: further calls can be made.
        is_up: the first reply has arrived, so calls can be written.
        has_ended: nothing can be written any more; before that, a stream that is not open is retired.
        peer: the server, in words.
        why: the reason that the stream is not open, in a sentence.
    """

    def __init__(self, address: str) -> None:
        self.is_open = True
        self.is_up = False
        self.has_ended = False
        self.peer = f"the DRPC server at {address}"
        self.why = f"{self.peer} has ended the stream of calls"
        self._refusal: TupletreeError | None = None  # the error of a stream that ended before it was up
        self.calls: OpenCalls[Waiting] = OpenCalls(MAX_OPEN)

    @property
    def can_write(self) -> bool:
        """True if there is a message to write."""
        return self.is_up and not self.has_ended and self.calls.has_news

    def request(self) -> tuple[pb.CallRequest, int]:
        """Return the next message, and the number of its calls. They are sent from then on."""
        calls, cancelled = self.calls.take()
        numbered = [
            pb.NumberedCall(number=one.number, function=one.function, args=one.args, timeout_s=one.timeout_s)
            for one in calls
        ]
        return pb.CallRequest(calls=numbered, cancelled=cancelled), len(calls) + len(cancelled)

    def on_reply(self, reply: Any) -> None:
        """End calls that are replied to. Raises ProtocolError for a message that cannot be decoded."""
        if not isinstance(reply, pb.CallReply):  # gRPC's way to say so
            raise ProtocolError(f"{self.peer} has sent a message that cannot be decoded")
        self.is_up = True
        for one in reply.replies:
            waiting = self.calls.end(one.number)
            if waiting is not None and not waiting.done():  # else its caller has left
                waiting.set_result(one)
        if reply.HasField("read_until"):
            self.is_open = False
            _fail(self.calls.unread(reply.read_until), functools.partial(UnreadError, self.why))

    def refusal(self) -> TupletreeError:
        """Return the error of a call on a stream that is not open: another stream can make it, unless none could."""
        return UnreadError(self.why) if self._refusal is None else type(self._refusal)(self.why)

    def late(self, number: int) -> DRPCTimeoutError:
        """Give up a call, and return the error of its caller."""
        processed = "was not sent" if self.calls.cancel(number) else "was possibly processed"
        text = f"{self.peer} did not answer in time; the call {processed}"
        return DRPCTimeoutError(text, Kind.TIMEOUT.value)

    def error_of(self, broken: Any) -> TupletreeError:
        """Return the error of a stream that gRPC says has broken."""
        if broken.code() is grpc.StatusCode.INTERNAL and broken.details() == _WRITE_FAILED:
            return UnavailableError(f"{self.peer} cannot be reached: the connection broke during a write")
        return from_rpc_error(broken, self.peer)

    def end(self, error: TupletreeError | None) -> None:
        """End all calls. ``error`` None: they are cancelled."""
        self.is_open = False
        self.has_ended = True
        unsent, sent = self.calls.broken()
        if error is None:
            for waiting in (*unsent, *sent):
                waiting.cancel()
            return
        self.why = str(error)
        self._refusal = None if self.is_up else error
        _fail(unsent, functools.partial(type(error), str(error)))
        text = f"the call was lost: {error}; it was possibly processed"
        _fail(sent, functools.partial(DRPCError, text, Kind.LOST.value))


def _fail(waiting: Iterable[Waiting], error: Callable[[], TupletreeError]) -> None:
    for one in waiting:
        if not one.done():
            one.set_exception(error())
