"""Client calls to supervisors: slots, and logs, profiles and stacks of their workers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

import grpc

from tupletree._rpc.status import from_rpc_error
from tupletree.client.results.supervisor import (
    LogChunk,
    LogFile,
    LogMatch,
    ProfileChunk,
    SearchEnd,
    SupervisorSlots,
)
from tupletree.v1 import supervisor_pb2, supervisor_pb2_grpc

_T = TypeVar("_T")

_CALL_S: Final = 10.0
_TAIL_S: Final = 30.0
_SEARCH_S: Final = 40.0
_PROFILE_MORE_S: Final = 60.0
_STACKS_S: Final = 20.0


class SupervisorCalls:
    """Calls to supervisors. Every method takes the ``presence.address`` of a supervisor in ``NimbusClient.cluster``.

    Every method raises NotFoundError if the slot, worker or file does not exist, UsageError if an argument is invalid,
    and UnavailableError if the supervisor does not answer.
    """

    def _channel(self, address: str) -> grpc.Channel:
        raise NotImplementedError

    def slots(self, supervisor: str) -> SupervisorSlots:
        """Return the slots of a supervisor and their contents."""
        request = supervisor_pb2.ListSlotsRequest()
        return SupervisorSlots.of(self._ask(supervisor, lambda stub: stub.ListSlots(request, timeout=_CALL_S)))

    def tail_log(
        self,
        supervisor: str,
        topology_id: str,
        port: int,
        *,
        last_bytes: int = 0,
        offset: int = 0,
        follow: bool = False,
        file: str = "",
        file_id: int = 0,
    ) -> Generator[LogChunk, None, None]:
        """Yield a worker's log, starting ``last_bytes`` before its end, or at ``offset`` if ``last_bytes`` is 0.

        ``follow``: also yield appended text, until the iterator is closed. ``file``: another file from ``list_logs``.
        ``file_id``, from an earlier reply: the file that ``offset`` refers to, even if it has been rotated since.
        """
        request = supervisor_pb2.TailLogRequest(
            topology_id=topology_id,
            port=port,
            last_bytes=last_bytes,
            offset=offset,
            follow=follow,
            file=file,
            file_id=file_id,
        )
        timeout_s = None if follow else _TAIL_S
        return self._stream(supervisor, lambda stub: stub.TailLog(request, timeout=timeout_s), LogChunk.of)

    def list_logs(self, supervisor: str, topology_id: str, port: int = 0) -> tuple[LogFile, ...]:
        """Return the log files of a topology's workers on a supervisor, of the slot ``port`` or of all slots (0)."""
        request = supervisor_pb2.ListLogsRequest(topology_id=topology_id, port=port)
        reply = self._ask(supervisor, lambda stub: stub.ListLogs(request, timeout=_CALL_S))
        return tuple(map(LogFile.of, reply.files))

    def search_log(
        self,
        supervisor: str,
        topology_id: str,
        port: int,
        pattern: str,
        *,
        file: str = "",
        is_regex: bool = False,
        ignore_case: bool = False,
        max_matches: int = 0,
        before: int = 0,
        after: int = 0,
    ) -> Generator[LogMatch | SearchEnd, None, None]:
        """Yield matching lines of a worker's log, oldest first, then one SearchEnd, with the reason if incomplete."""
        request = supervisor_pb2.SearchLogRequest(
            topology_id=topology_id,
            port=port,
            file=file,
            pattern=pattern,
            is_regex=is_regex,
            ignore_case=ignore_case,
            max_matches=max_matches,
            before=before,
            after=after,
        )
        return self._stream(supervisor, lambda stub: stub.SearchLog(request, timeout=_SEARCH_S), _search_result)

    def profile_worker(
        self, supervisor: str, topology_id: str, port: int, seconds: float, format: str = "", per_second: int = 0
    ) -> Generator[ProfileChunk, None, None]:
        """Profile a worker's threads for ``seconds`` and yield the resulting file in chunks."""
        request = supervisor_pb2.ProfileWorkerRequest(
            topology_id=topology_id, port=port, seconds=seconds, format=format, per_second=per_second
        )
        timeout_s = seconds + _PROFILE_MORE_S
        return self._stream(supervisor, lambda stub: stub.ProfileWorker(request, timeout=timeout_s), ProfileChunk.of)

    def dump_stacks(self, supervisor: str, topology_id: str, port: int) -> str:
        """Return the current stacks of all threads of a worker as text."""
        request = supervisor_pb2.DumpStacksRequest(topology_id=topology_id, port=port)
        return self._ask(supervisor, lambda stub: stub.DumpStacks(request, timeout=_STACKS_S)).text

    def _ask(self, address: str, invoke: Callable[[supervisor_pb2_grpc.SupervisorStub], _T]) -> _T:
        try:
            return invoke(supervisor_pb2_grpc.SupervisorStub(self._channel(address)))
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"supervisor at {address}") from None

    def _stream(
        self,
        address: str,
        invoke: Callable[[supervisor_pb2_grpc.SupervisorStub], Any],
        convert: Callable[[Any], _T],
    ) -> Generator[_T, None, None]:
        replies = invoke(supervisor_pb2_grpc.SupervisorStub(self._channel(address)))
        try:
            yield from map(convert, replies)
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"supervisor at {address}") from None
        finally:
            replies.cancel()


def _search_result(reply: supervisor_pb2.SearchLogReply) -> LogMatch | SearchEnd:
    return LogMatch.of(reply.match) if reply.HasField("match") else SearchEnd.of(reply.end)
