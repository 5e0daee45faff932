"""What a client asks supervisors: logs, profiles and stacks of the workers on their machines, and their slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import grpc

from tupletree._rpc.status import from_rpc_error
from tupletree.v1 import supervisor_pb2, supervisor_pb2_grpc

_T = TypeVar("_T")

_CALL_S: Final = 10.0
_TAIL_S: Final = 30.0
_SEARCH_S: Final = 40.0
_PROFILE_MORE_S: Final = 60.0
_STACKS_S: Final = 20.0


class SupervisorCalls:
    """Every method takes the address of a supervisor, as ``NimbusClient.cluster`` names it.

    Each raises NotFoundError for what is not there, UsageError for what makes no sense, and UnavailableError if the
    supervisor does not answer.
    """

    def _channel(self, address: str) -> grpc.Channel:
        raise NotImplementedError

    def slots(self, supervisor: str) -> supervisor_pb2.ListSlotsReply:
        """The slots of a supervisor, and what runs in them."""
        return self._ask(supervisor, lambda stub: stub.ListSlots(supervisor_pb2.ListSlotsRequest(), timeout=_CALL_S))

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
    ) -> Iterator[supervisor_pb2.TailLogReply]:
        """A worker's log from ``last_bytes`` before its end, or from ``offset`` if that is 0.

        With ``follow`` also what is added to it, until the iterator is closed. ``file``: another of the files that
        ``list_logs`` names. ``file_id``, from an earlier reply: which file ``offset`` is in, though it may have been
        rotated since.
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
        return self._stream(supervisor, lambda stub: stub.TailLog(request, timeout=None if follow else _TAIL_S))

    def list_logs(self, supervisor: str, topology_id: str, port: int = 0) -> list[supervisor_pb2.LogFile]:
        """The files that the topology's workers have written there; those of one slot, or of all (0)."""
        request = supervisor_pb2.ListLogsRequest(topology_id=topology_id, port=port)
        return list(self._ask(supervisor, lambda stub: stub.ListLogs(request, timeout=_CALL_S)).files)

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
    ) -> Iterator[supervisor_pb2.SearchLogReply]:
        """Lines of a worker's log that match, oldest first; then one ``end``, which says if everything was searched."""
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
        return self._stream(supervisor, lambda stub: stub.SearchLog(request, timeout=_SEARCH_S))

    def profile_worker(
        self, supervisor: str, topology_id: str, port: int, seconds: float, format: str = "", per_second: int = 0
    ) -> Iterator[supervisor_pb2.ProfileWorkerReply]:
        """Watch a worker's threads for some seconds; the file that comes of it, in pieces."""
        request = supervisor_pb2.ProfileWorkerRequest(
            topology_id=topology_id, port=port, seconds=seconds, format=format, per_second=per_second
        )
        timeout_s = seconds + _PROFILE_MORE_S
        return self._stream(supervisor, lambda stub: stub.ProfileWorker(request, timeout=timeout_s))

    def dump_stacks(self, supervisor: str, topology_id: str, port: int) -> str:
        """What every thread of a worker is doing at this moment, as text."""
        request = supervisor_pb2.DumpStacksRequest(topology_id=topology_id, port=port)
        return self._ask(supervisor, lambda stub: stub.DumpStacks(request, timeout=_STACKS_S)).text

    def _ask(self, address: str, invoke: Callable[[supervisor_pb2_grpc.SupervisorStub], _T]) -> _T:
        try:
            return invoke(supervisor_pb2_grpc.SupervisorStub(self._channel(address)))
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"supervisor at {address}") from None

    def _stream(self, address: str, invoke: Callable[[supervisor_pb2_grpc.SupervisorStub], Any]) -> Iterator[Any]:
        replies = invoke(supervisor_pb2_grpc.SupervisorStub(self._channel(address)))
        try:
            yield from replies
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"supervisor at {address}") from None
        finally:
            replies.cancel()
