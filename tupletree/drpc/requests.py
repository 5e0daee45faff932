"""The pending requests of a DRPC server: queues per function, tasks that serve them, deadlines. Pure.

    execute -> queued -> sent to a server -> ended, once: answered, failed, timed out, lost, cancelled
                 ^            |
                 +- given back

A *server* is a task of a DRPCSpout. It is sent requests while it has room, in turn with the other servers of its
function. A request that has ended is forgotten: what arrives for it later is ignored.

**Fairness.** Each function has a queue of its own, and a function is admitted a further request only while it has fewer
pending requests than the server has room left. So one function alone gets at most half of the room, two get a third
each, and there is always room for a function that has none. The same holds for the bytes of
requests: their arguments and results. Results beyond the room of the server, or of one answer, end their request.
"""

from __future__ import annotations  # pure

import enum
import heapq
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tupletree.errors import OverloadedError, UsageError

_FUNCTION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SPARE_DEADLINES: Final = 1000
MAX_ANSWER_BYTES: Final = 48 * 1024 * 1024  # so that a message fits what callers accept
DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
SEE_ERRORS: Final = "; if a component raised, `tupletree errors` names it"


class Kind(enum.Enum):
    """The end of a request."""

    ANSWERED = "answered"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    SHUTDOWN = "shutdown"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that has ended. ``text``: the answer as JSON, or the reason in a sentence."""

    id: str
    function: str
    kind: Kind
    text: str = ""
    server: int | None = None  # which had been sent the request


@dataclass(frozen=True, slots=True)
class Assigned:
    """A request to be sent to a server."""

    server: int
    id: str
    args: str


@dataclass(slots=True)
class _Request:
    id: str
    function: str
    args: str
    ends_s: float
    held_bytes: int  # of arguments and results
    server: int | None = None
    results: bytearray = field(default_factory=bytearray)  # with a comma after each; if one is expected, only the first
    found: int = 0


@dataclass(slots=True)
class _Server:
    function: str
    topology_id: str
    max_in_flight: int
    collects: bool
    is_paused: bool = False
    sent: dict[str, None] = field(default_factory=dict)

    @property
    def has_room(self) -> bool:
        return not self.is_paused and len(self.sent) < self.max_in_flight


@dataclass(slots=True)
class _Function:
    queue: OrderedDict[str, _Request] = field(default_factory=OrderedDict)
    servers: deque[int] = field(default_factory=deque)  # the next in turn first
    pending: int = 0
    held_bytes: int = 0


def check_function(function: object) -> str:
    """Return the name of a function. Raises UsageError."""
    if not isinstance(function, str) or not _FUNCTION.fullmatch(function):
        raise UsageError(
            f"the DRPC function {str(function)[:120]!r} must be named by at most 100 letters, digits, '_', '.' and '-'"
        )
    return function


class Requests:
    """The requests that have not ended, at most ``max_pending``, in at most ``max_bytes`` with their results.

    Ids and times are given by the caller.
    """

    def __init__(self, max_pending: int, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_pending = max_pending
        self._max_bytes = max_bytes
        self.held_bytes = 0
        self._pending: dict[str, _Request] = {}
        self._functions: dict[str, _Function] = {}
        self._servers: dict[int, _Server] = {}
        self._deadlines: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def functions(self) -> dict[str, tuple[int, int, int]]:
        """For each function: the queued requests, those that were sent to a server, and the servers."""
        return {
            name: (len(one.queue), one.pending - len(one.queue), len(one.servers))
            for name, one in self._functions.items()
        }

    def execute(self, id: str, function: str, args: str, ends_s: float) -> None:
        """Queue a request. Raises UsageError for the name of the function, OverloadedError if there is no room."""
        check_function(function)
        known = self._functions.get(function)
        pending = 0 if known is None else known.pending
        if pending >= self.max_pending - len(self._pending):
            raise OverloadedError(
                f"function {function!r} has {pending} pending requests, and the DRPC server has room for no more of "
                f"them (drpc.max.pending is {self.max_pending}): call again later"
            )
        size = sys.getsizeof(args)
        held = 0 if known is None else known.held_bytes
        if held + size > self._max_bytes - self.held_bytes:
            raise OverloadedError(
                f"the pending requests of function {function!r} have {held} bytes, and the DRPC server has no room for "
                f"{size} more (drpc.max.pending.bytes is {self._max_bytes}): call again later"
            )
        request = _Request(id, function, args, ends_s, 0)
        self._pending[id] = request
        one = self._function(function)
        one.pending += 1
        self._grow(request, size)
        one.queue[id] = request
        heapq.heappush(self._deadlines, (ends_s, id))
        if len(self._deadlines) > 2 * len(self._pending) + _SPARE_DEADLINES:
            self._deadlines = [(pending.ends_s, id) for id, pending in self._pending.items()]
            heapq.heapify(self._deadlines)

    def connect(
        self,
        server: int,
        function: str,
        topology_id: str,
        max_in_flight: int,
        collects: bool,
        is_paused: bool = False,
    ) -> None:
        """Add a server. Raises UsageError for the name of the function."""
        check_function(function)
        self._servers[server] = _Server(function, topology_id, max_in_flight, collects, is_paused)
        self._function(function).servers.append(server)

    def disconnect(self, server: int, why: str = "") -> list[Ended]:
        """Remove a server; the requests that it was sent are lost. ``why``: the reason, if it is known."""
        gone = self._servers.get(server)
        if gone is None:
            return []
        why = why or f"the worker that had taken the request of function {gone.function!r} was lost{SEE_ERRORS}"
        ended = [self._end(id, Kind.LOST, why) for id in list(gone.sent)]
        del self._servers[server]
        self._functions[gone.function].servers.remove(server)
        self._tidy(gone.function)
        return ended

    def end_unserved(self, function: str, kind: Kind, why: str) -> list[Ended]:
        """End the queued requests of a function, if it has no server."""
        one = self._functions.get(function)
        return [] if one is None or one.servers else [self._end(id, kind, why) for id in list(one.queue)]

    def pause(self, server: int, is_paused: bool) -> None:
        """Send a server no further requests, or send it some again."""
        self._servers[server].is_paused = is_paused

    def assign(self, function: str) -> list[Assigned]:
        """Take requests from the queue of a function, for servers that have room; each server in turn gets one."""
        one = self._functions.get(function)
        assigned: list[Assigned] = []
        full = 0
        while one is not None and one.queue and full < len(one.servers):
            number = one.servers[0]
            one.servers.rotate(-1)
            server = self._servers[number]
            if not server.has_room:
                full += 1
                continue
            full = 0
            id, request = one.queue.popitem(last=False)
            request.server = number
            server.sent[id] = None
            assigned.append(Assigned(number, id, request.args))
        return assigned

    def give_back(self, server: int, ids: Iterable[str]) -> None:
        """Queue requests again, before others, that a server has not emitted."""
        for id in reversed(list(ids)):
            if id not in self._servers[server].sent:
                continue
            del self._servers[server].sent[id]
            request = self._pending[id]
            request.server = None
            queue = self._functions[request.function].queue
            queue[id] = request
            queue.move_to_end(id, last=False)

    def add_result(self, topology_id: str, id: str, value: str) -> Ended | None:
        """Keep a result of a request that this topology serves. End the request if there is no room for the result."""
        request = self._pending.get(id)
        if request is None or request.server is None:
            return None
        server = self._servers[request.server]
        if server.topology_id != topology_id:
            return None
        request.found += 1
        if request.found > 1 and not server.collects:
            return None  # the end is decided
        before = len(request.results)
        request.results += value.encode() + b","
        self._grow(request, len(request.results) - before)
        why = ""
        if len(request.results) > MAX_ANSWER_BYTES:
            why = f"has more than the {MAX_ANSWER_BYTES} bytes that fit"
        elif self.held_bytes > self._max_bytes:
            why = f"has no room in the DRPC server (drpc.max.pending.bytes is {self._max_bytes})"
        return self._end(id, Kind.FAILED, f"the answer of function {request.function!r} {why}") if why else None

    def complete(self, server: int, id: str) -> Ended | None:
        """End a request whose tree is complete: with its results."""
        one = self._servers[server]
        if id not in one.sent:
            return None
        request = self._pending[id]
        results = request.results[:-1].decode()
        if one.collects:
            return self._end(id, Kind.ANSWERED, f"[{results}]")
        if request.found == 1:
            return self._end(id, Kind.ANSWERED, results)
        found = f"{request.found} results" if request.found else "no result"
        return self._end(
            id, Kind.FAILED,
            f"the tuple tree of the request of function {one.function!r} is complete with {found}, one was expected",
        )  # fmt: skip

    def fail(self, server: int, id: str, kind: Kind, why: str) -> Ended | None:
        """End a request whose tree has failed."""
        return self._end(id, kind, why) if id in self._servers[server].sent else None

    def cancel(self, id: str) -> Ended | None:
        """End a request that nobody waits for any longer."""
        return self._end(id, Kind.CANCELLED) if id in self._pending else None

    def expire(self, now_s: float) -> list[Ended]:
        """End the requests whose time is over."""
        ended: list[Ended] = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            request = self._pending.get(heapq.heappop(self._deadlines)[1])
            if request is not None:
                ended.append(self._end(request.id, Kind.TIMEOUT, self._late(request)))
        return ended

    def end_all(self, kind: Kind, why: str) -> list[Ended]:
        """End all requests."""
        return [self._end(id, kind, why) for id in list(self._pending)]

    def _late(self, request: _Request) -> str:
        name = request.function
        if request.server is not None:
            return f"function {name!r} has not answered in time"
        if not self._functions[name].servers:
            return f"no topology has served function {name!r} in time: does one run that has a DRPCSpout({name!r})?"
        return f"the topology that serves function {name!r} has not taken the request in time"

    def _end(self, id: str, kind: Kind, text: str = "") -> Ended:
        request = self._pending.pop(id)
        one = self._functions[request.function]
        one.pending -= 1
        self._grow(request, -request.held_bytes)
        if request.server is None:
            del one.queue[id]
        else:
            del self._servers[request.server].sent[id]
        self._tidy(request.function)
        return Ended(id, request.function, kind, text, request.server)

    def _grow(self, request: _Request, size: int) -> None:
        request.held_bytes += size
        self._functions[request.function].held_bytes += size
        self.held_bytes += size

    def _function(self, name: str) -> _Function:
        return self._functions.setdefault(name, _Function())

    def _tidy(self, name: str) -> None:
        one = self._functions[name]
        if not one.pending and not one.servers:
            del self._functions[name]
