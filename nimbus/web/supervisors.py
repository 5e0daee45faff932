"""Requests to supervisors for the REST API: logs, searches, profiles and stack dumps of workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc.aio

from tupletree._log import event
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import ConflictError, UsageError
from tupletree.v1 import supervisor_pb2 as pb

from ..leader.reconciler import Reconciler
from .logs import CONTEXT_LINES, WorkerPlace

log = logging.getLogger("tupletree.nimbus")

_CALL_S: Final = 10.0
_TAIL_S: Final = 30.0
_SEARCH_S: Final = 40.0
_PROFILE_MORE_S: Final = 60.0
_STACKS_S: Final = 20.0
_MAX_PROFILES: Final = 32
_MAX_PROFILE_S: Final = 600.0
_BEGIN_S: Final = 1.0  # in which a profiler that is missing, or may not look into the worker, says so


class Supervisors:
    """Calls over the leader's gRPC channels. Each call raises the supervisor's error, or UnavailableError."""

    def __init__(self) -> None:
        self._profiles: dict[tuple[str, str, int], asyncio.Task[None]] = {}

    async def read(
        self, reconciler: Reconciler, place: WorkerPlace, name: str, start: int | None, max_bytes: int
    ) -> tuple[int, bytes, int]:
        """Read part of a file, from ``start`` or, with None, the last bytes. Returns the offset and the bytes, and the
        offset from which a later call goes on: a log may go on in a newer file, with offsets of its own."""
        request = self._tail(place, name, start, max_bytes)
        at = following = start or 0
        data = bytearray()
        async with _translated(place):
            call = _stub(reconciler, place).TailLog(request, timeout=_TAIL_S)
            async for reply in call:
                if not data:
                    at = reply.offset
                piece = reply.data[: max_bytes - len(data)]
                data += piece
                following = reply.offset + len(piece)
                if len(data) >= max_bytes:
                    call.cancel()
                    break
        return at, bytes(data), following

    async def whole(self, reconciler: Reconciler, place: WorkerPlace, name: str) -> AsyncIterator[bytes]:
        """Read a whole file in pieces. The first piece is read at once, so that a missing file raises here."""
        call = _stub(reconciler, place).TailLog(self._tail(place, name, 0, 0), timeout=10 * _TAIL_S)
        async with _translated(place):
            first: Any = await call.read()

        async def pieces() -> AsyncIterator[bytes]:
            piece = first
            try:
                while piece is not grpc.aio.EOF:
                    yield piece.data
                    piece = await call.read()
            finally:
                call.cancel()

        return pieces()

    async def files(self, reconciler: Reconciler, place: WorkerPlace) -> list[pb.LogFile]:
        """Return the files that a worker has written."""
        request = pb.ListLogsRequest(topology_id=place.topology_id, port=place.port)
        async with _translated(place):
            reply = await _stub(reconciler, place).ListLogs(request, timeout=_CALL_S)
        return list(reply.files)

    async def search(
        self, reconciler: Reconciler, place: WorkerPlace, name: str, text: str, most: int, start: int | None = None
    ) -> tuple[list[pb.LogMatch], str]:
        """Return the lines that contain a text, oldest first, and the reason why the search is incomplete, or "".

        ``start``: only in the file of this name itself, from this byte on; None: in its rotated files too.
        """
        request = pb.SearchLogRequest(
            topology_id=place.topology_id,
            port=place.port,
            file=name,
            pattern=text,
            max_matches=most,
            before=CONTEXT_LINES,
            after=CONTEXT_LINES,
            offset=start,
        )
        found: list[pb.LogMatch] = []
        incomplete = ""
        async with _translated(place):
            async for reply in _stub(reconciler, place).SearchLog(request, timeout=_SEARCH_S):
                if reply.WhichOneof("kind") == "match":
                    found.append(reply.match)
                else:
                    incomplete = reply.end.incomplete
        return found, incomplete

    async def stacks(self, reconciler: Reconciler, place: WorkerPlace) -> str:
        """Return the stacks of every thread of a worker."""
        request = pb.DumpStacksRequest(topology_id=place.topology_id, port=place.port)
        async with _translated(place):
            reply = await _stub(reconciler, place).DumpStacks(request, timeout=_STACKS_S)
        return str(reply.text)

    async def dump_memory(self, reconciler: Reconciler, place: WorkerPlace) -> str:
        """Have a worker dump its memory, and return the name of the file."""
        request = pb.ProfileWorkerRequest(topology_id=place.topology_id, port=place.port, format="memory")
        name = ""
        async with _translated(place):
            async for reply in _stub(reconciler, place).ProfileWorker(request, timeout=_PROFILE_MORE_S):
                name = name or reply.file
        return name

    async def start_profile(self, reconciler: Reconciler, place: WorkerPlace, seconds: float) -> None:
        """Start profiling a worker. The file exists once the profile ends.

        Raises ConflictError while the worker is being profiled or too many profiles are running, UsageError for an
        invalid duration, and the supervisor's error if it comes at once. A later one is logged.
        """
        if not 0 < seconds <= _MAX_PROFILE_S:
            raise UsageError(f"a profile must last more than 0 and at most {_MAX_PROFILE_S / 60:.0f} minutes")
        key = (place.topology_id, place.host, place.port)
        if key in self._profiles:
            raise ConflictError(f"worker {place.host}:{place.port} is already being profiled")
        if len(self._profiles) >= _MAX_PROFILES:
            raise ConflictError(f"{_MAX_PROFILES} workers are being profiled, and more at a time are not permitted")
        task = asyncio.create_task(self._profile(reconciler, place, seconds))
        self._profiles[key] = task
        task.add_done_callback(lambda _: self._profile_ended(key, task))
        await asyncio.wait({task}, timeout=_BEGIN_S)
        if task.done() and not task.cancelled():
            task.result()

    def stop_profile(self, place: WorkerPlace) -> bool:
        """Cancel a running profile, without writing a file. Returns True if a profile was running."""
        task = self._profiles.get((place.topology_id, place.host, place.port))
        return task is not None and task.cancel()

    def profiling(self, topology_id: str) -> list[tuple[str, int]]:
        """Return host and port of each worker of a topology with a profile started over HTTP."""
        return sorted((host, port) for one, host, port in self._profiles if one == topology_id)

    async def _profile(self, reconciler: Reconciler, place: WorkerPlace, seconds: float) -> None:
        request = pb.ProfileWorkerRequest(topology_id=place.topology_id, port=place.port, seconds=seconds)
        async with _translated(place):
            async for _ in _stub(reconciler, place).ProfileWorker(request, timeout=seconds + _PROFILE_MORE_S):
                pass

    def _profile_ended(self, key: tuple[str, str, int], task: asyncio.Task[None]) -> None:
        self._profiles.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            topology_id, host, port = key
            event(log, "profile.failed", level=logging.WARNING, topology=topology_id, host=host, slot=port, cause=error)

    def _tail(self, place: WorkerPlace, name: str, start: int | None, max_bytes: int) -> pb.TailLogRequest:
        last = max_bytes if start is None else 0
        return pb.TailLogRequest(
            topology_id=place.topology_id, port=place.port, file=name, last_bytes=last, offset=start or 0
        )


def _stub(reconciler: Reconciler, place: WorkerPlace) -> Any:
    """Return an asynchronous stub. The generated types do not distinguish asynchronous from synchronous stubs."""
    return reconciler.supervisor(place.supervisor)


@contextlib.asynccontextmanager
async def _translated(place: WorkerPlace) -> AsyncIterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error, f"supervisor at {place.supervisor}") from None
