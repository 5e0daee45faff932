"""The link between a task of a DRPCSpout and one DRPC server: a stream, on a thread that connects again and again.

the link's thread                       the task's thread
requests of the stream   --arrivals-->  next
updates of the stream    <--queue----   completed, failed
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import grpc

from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree.backoff import Backoff
from tupletree.drpc.linger import Linger
from tupletree.drpc.lingering import wait_to_write
from tupletree.drpc.requests import Kind
from tupletree.errors import TupletreeError
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc

_MAX_UPDATE: Final = 1000
_RECONNECT: Final = Backoff(first_s=0.1, factor=2, max_s=2, max_attempts=None)
_KINDS: Final = {
    Kind.FAILED: pb.DrpcFailure.KIND_FAILED,
    Kind.TIMEOUT: pb.DrpcFailure.KIND_TIMEOUT,
    Kind.LOST: pb.DrpcFailure.KIND_LOST,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request to emit. ``args``: JSON. ``place``: of the server that has sent it."""

    id: str
    args: str
    place: str


class Intake(Protocol):
    """A source of requests, and the way back for their ends. Used on the task's thread."""

    @property
    def is_connected(self) -> bool: ...
    def next(self) -> Arrival | None: ...
    def completed(self, id: str) -> None: ...
    def failed(self, id: str, kind: Kind, why: str) -> None: ...
    def set_paused(self, is_paused: bool) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Serving:
    """The description of a task that it sends to a server."""

    topology_id: str
    function: str
    max_in_flight: int
    collects: bool


class RemoteIntake:
    """Requests of one DRPC server. ``rouse`` is called when one arrives, ``report`` with each new error: any thread."""

    def __init__(
        self, address: str, serving: Serving, rouse: Callable[[], None], report: Callable[[Exception], None]
    ) -> None:
        self.is_connected = False
        self._address = address
        self._serving = serving
        self._rouse = rouse
        self._report = report
        self._arrivals: deque[Arrival] = deque()
        self._updates: queue.SimpleQueue[Any] = queue.SimpleQueue()  # of the present stream; None ends it
        self._ended: set[str] = set()
        self._is_paused = False
        self._closing = threading.Event()
        self._channel = channel(address)
        self._thread = threading.Thread(target=self._run, name=f"drpc {address}", daemon=True)
        self._thread.start()

    def next(self) -> Arrival | None:
        while self._arrivals:
            try:
                arrival = self._arrivals.popleft()
            except IndexError:  # the stream has broken just now
                return None
            if arrival.id not in self._ended:
                return arrival
            self._ended.discard(arrival.id)
        return None

    def completed(self, id: str) -> None:
        self._ended.discard(id)
        self._updates.put(id)

    def failed(self, id: str, kind: Kind, why: str) -> None:
        self._ended.discard(id)
        reason = why.encode("utf-8", "replace").decode()  # an error's text may hold half of a surrogate pair
        self._updates.put(pb.FailedRequest(id=id, failure=pb.DrpcFailure(kind=_KINDS[kind], reason=reason)))

    def set_paused(self, is_paused: bool) -> None:
        """Ask for no requests, and give back those that are not emitted; or ask for requests again."""
        self._is_paused = is_paused
        self._updates.put(pb.ServeUpdate(given_back=self._unemitted() if is_paused else (), paused=is_paused))

    def _unemitted(self) -> list[str]:
        """Take all arrivals, and return their ids. Any thread."""
        ids = []
        while (arrival := self.next()) is not None:
            ids.append(arrival.id)
        return ids

    def close(self) -> None:
        self._closing.set()
        self._updates.put(None)
        self._channel.close()
        self._thread.join()

    # On the link's thread

    def _run(self) -> None:
        failures, told = 0, ""
        while not self._closing.is_set():
            try:
                self._follow()
                failures = 0
            except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
                failures = 1 if self.is_connected else failures + 1
                known = _error_of(error, self._address)
                if not self._closing.is_set() and str(known) != told:
                    told = str(known)
                    self._report(known)
            self.is_connected = False
            self._arrivals.clear()  # the server has given them up
            self._ended.clear()
            self._updates.put(None)
            self._closing.wait(_RECONNECT.pause_s(max(1, failures)))

    def _follow(self) -> None:
        updates = self._updates = queue.SimpleQueue()
        call = drpc_pb2_grpc.DrpcStub(self._channel).Serve(self._requests(updates))
        for reply in call:
            self.is_connected = True
            self._arrivals.extend(Arrival(one.id, one.args.decode(), self._address) for one in reply.requests)
            self._ended.update(reply.ended)
            if reply.requests and self._is_paused:  # the server had sent them before it knew
                updates.put(pb.ServeUpdate(given_back=self._unemitted(), paused=True))
            elif reply.requests:
                self._rouse()

    def _requests(self, updates: queue.SimpleQueue[Any]) -> Iterator[pb.ServeRequest]:
        serving = self._serving
        yield pb.ServeRequest(
            hello=pb.ServeHello(
                topology_id=serving.topology_id,
                function=serving.function,
                max_in_flight=serving.max_in_flight,
                collects=serving.collects,
                paused=self._is_paused,
            )
        )
        linger = Linger()
        while (first := updates.get()) is not None:
            wait_to_write(linger)
            update = pb.ServeUpdate(paused=self._is_paused)
            _add(update, first)
            while len(update.completed) + len(update.failed) < _MAX_UPDATE and not updates.empty():
                if (item := updates.get()) is None:
                    return
                _add(update, item)
            update.paused = self._is_paused
            linger.wrote(len(update.completed) + len(update.failed), time.monotonic())
            yield pb.ServeRequest(update=update)


def _add(update: pb.ServeUpdate, item: Any) -> None:
    if isinstance(item, str):
        update.completed.append(item)
    elif isinstance(item, pb.FailedRequest):
        update.failed.append(item)
    else:
        update.MergeFrom(item)


def _error_of(error: Exception, address: str) -> Exception:
    peer = f"the DRPC server at {address}"
    return from_rpc_error(error, peer) if isinstance(error, grpc.RpcError) else TupletreeError(f"{peer}: {error}")
