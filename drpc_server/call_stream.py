"""A stream of a caller: calls arrive, are ended in any order, and their replies leave together.

While much waits to be written, because the caller reads slowly, no calls are read: HTTP/2 then stops the caller.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from typing import Any, Final

from tupletree._log import event
from tupletree._security.rights import Principal
from tupletree.drpc.linger import Linger
from tupletree.drpc.lingering import lingered
from tupletree.drpc.open_calls import MAX_CALLS
from tupletree.drpc.requests import Ended, Kind
from tupletree.errors import ForbiddenError, OverloadedError, ProtocolError, UsageError
from tupletree.v1 import drpc_pb2 as pb

from .desk import MAX_BATCH, Desk

log = logging.getLogger(__name__)

KINDS: Final = {
    Kind.FAILED: pb.DrpcFailure.KIND_FAILED,
    Kind.TIMEOUT: pb.DrpcFailure.KIND_TIMEOUT,
    Kind.LOST: pb.DrpcFailure.KIND_LOST,
    Kind.SHUTDOWN: pb.DrpcFailure.KIND_SHUTDOWN,
}
MAX_STREAM_S: Final = 600.0
"""After this time a stream is retired, and the caller opens another: a token that has expired then begins no more."""

_MAX_REPLY_BYTES: Final = 8 * 1024 * 1024  # of one message, unless one reply is longer
_MAX_WAITING: Final = 10_000  # replies; while more are unwritten, no calls are read
_MAX_WAITING_BYTES: Final = 64 * 1024 * 1024


def failure_of(ended: Ended) -> pb.DrpcFailure:
    """Return the end of a request that was not answered."""
    return pb.DrpcFailure(kind=KINDS[ended.kind], reason=ended.text)


class CallStream:
    """The calls of one stream that have not ended, and the replies that are not written.

        open -> retired: the server ends, the stream is old, or the caller begins no more; the caller is told which
                         calls were read -> all have ended and are replied to -> end of the stream

    Attributes:
        opened: the first request has arrived, or the stream has ended.

    ``who``: the caller; None: tokens are disabled.
    """

    def __init__(self, desk: Desk, who: Principal | None) -> None:
        self.opened = asyncio.Event()
        self._desk = desk
        self._who = who
        self._ids: dict[int, str] = {}  # of calls that have not ended, by number
        self._replies: deque[pb.NumberedReply] = deque()
        self._waiting_bytes = 0
        self._read_until = 0
        self._is_retired = False
        self._is_retirement_told = False
        self._is_broken = False
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._linger = Linger()
        self._old = asyncio.get_running_loop().call_later(MAX_STREAM_S, self.retire)
        desk.add_stream(self)

    async def read(self, requests: Any) -> None:
        """Begin calls until the caller begins no more. Raises ProtocolError."""
        try:
            async for request in requests:
                self.opened.set()
                self._apply(request)
                while len(self._replies) > _MAX_WAITING or self._waiting_bytes > _MAX_WAITING_BYTES:
                    self._has_room.clear()
                    await self._has_room.wait()
        except BaseException:
            self._is_broken = True
            raise
        finally:
            self.opened.set()
            self.retire()

    def retire(self) -> None:
        """Begin no further calls."""
        self._is_retired = True
        self.opened.set()  # a caller that has sent nothing is not waited for
        self._has_news.set()

    async def next(self) -> pb.CallReply | None:
        """Wait for replies; None at the end of the stream."""
        while not self._replies and self._is_retired is self._is_retirement_told:
            if self._is_broken or (self._is_retired and not self._ids):
                return None
            self._has_news.clear()
            await self._has_news.wait()
        await lingered(self._linger)
        batch: list[pb.NumberedReply] = []
        size = 0
        while self._replies and len(batch) < MAX_BATCH:
            length = len(self._replies[0].result)
            if batch and size + length > _MAX_REPLY_BYTES:
                break
            size += length
            batch.append(self._replies.popleft())
        self._linger.wrote(len(batch), time.monotonic())
        self._waiting_bytes -= size
        self._has_room.set()
        reply = pb.CallReply(replies=batch)
        if self._is_retired and not self._is_retirement_told:
            self._is_retirement_told = True
            reply.read_until = self._read_until
        return reply

    def abandon(self) -> None:
        """Cancel the calls that have not ended."""
        self._old.cancel()
        self._desk.remove_stream(self)
        for id in list(self._ids.values()):
            self._desk.cancel(id)

    def _apply(self, request: pb.CallRequest) -> None:
        if len(request.calls) > MAX_CALLS:
            raise ProtocolError(f"a message has {len(request.calls)} calls, expected at most {MAX_CALLS}")
        for call in request.calls:
            if self._is_retired:
                break  # the caller begins them elsewhere
            if call.number <= self._read_until:
                raise ProtocolError(f"call {call.number} follows call {self._read_until}, expected a higher number")
            self._read_until = call.number
            self._begin(call)
        for number in request.cancelled:
            if (id := self._ids.get(number)) is not None:
                self._desk.cancel(id)

    def _begin(self, call: pb.NumberedCall) -> None:
        number = call.number
        try:
            args = call.args.decode()
            on_end = functools.partial(self._ended, number)
            self._ids[number] = self._desk.begin(self._who, call.function, args, call.timeout_s, on_end)
        except UnicodeDecodeError:
            self._refuse(number, pb.DrpcRefusal.KIND_INVALID, "the arguments are not JSON")
        except UsageError as error:
            self._refuse(number, pb.DrpcRefusal.KIND_INVALID, str(error))
        except ForbiddenError as error:
            event(log, "call.refused", level=logging.WARNING, operation="Call", cause=error)
            self._refuse(number, pb.DrpcRefusal.KIND_FORBIDDEN, str(error))
        except OverloadedError as error:
            self._refuse(number, pb.DrpcRefusal.KIND_OVERLOADED, str(error))

    def _ended(self, number: int, ended: Ended) -> None:
        self._ids.pop(number, None)
        if ended.kind is Kind.CANCELLED:
            self._has_news.set()  # possibly it was the last of a stream that is retired
            return
        if ended.kind is not Kind.ANSWERED:
            self._reply(pb.NumberedReply(number=number, failure=failure_of(ended)))
            return
        self._reply(pb.NumberedReply(number=number, result=ended.text.encode()))

    def _refuse(self, number: int, kind: pb.DrpcRefusal.Kind, reason: str) -> None:
        self._reply(pb.NumberedReply(number=number, refusal=pb.DrpcRefusal(kind=kind, reason=reason)))

    def _reply(self, reply: pb.NumberedReply) -> None:
        self._replies.append(reply)
        self._waiting_bytes += len(reply.result)
        self._has_news.set()
