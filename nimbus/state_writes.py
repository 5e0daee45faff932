"""Changes of the states of a topology: nimbus passes them to the workers of the tasks, and their answers on.

The bolt says which task a key belongs to, so each worker gets all changes and makes those of its own tasks. Keys and
values stay encoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import grpc.aio

from tupletree._rpc.status import from_rpc_error
from tupletree.errors import ProtocolError, UsageError
from tupletree.state.writes import check_changes, check_wait, decisive, with_committed
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1 import worker_pb2

from .cluster_view import ClusterView
from .state_queries import StateQueries, tasks_of_component, workers_of

CALL_S: Final = 12.0
"""The time that a worker has for its answer, beside the wait for a checkpoint."""


class WriteRequests:
    """Requests that change states, over the channels to the workers that ``queries`` keeps."""

    def __init__(self, queries: StateQueries) -> None:
        self._queries = queries

    async def write(
        self, view: ClusterView, record: pb.TopologyRecord, asked: rpc.WriteStateRequest
    ) -> rpc.WriteStateReply:
        """Make changes in a topology that the caller may change. ``asked.name`` is not read.

        Raises:
            NotFoundError: there is no such component, or it has no state.
            UsageError: the request is malformed or too large, a key has no task, or the state cannot be written.
            ConflictError: a task went back to an earlier checkpoint before all changes were committed, or a key has
                another value than the expected one.
            UnavailableError: a task does not run or answer, or no checkpoint is committed in time.
        """
        check_changes(asked.changes)
        check_wait(asked.wait_s)
        tasks = len(tasks_of_component(record, asked.component))
        indexes = indexes_of(asked.changes, tasks, asked.component)
        workers = workers_of(view.assignment(record.id), record, asked.component, indexes)
        outcomes = await asyncio.gather(
            *(self._ask(view, record.id, address, those, asked, tasks) for address, those in workers.items()),
            return_exceptions=True,
        )
        written: list[pb.StateWritten] = []
        errors = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                errors.append(outcome)
            else:
                written += outcome.tasks
        if errors:
            raise with_committed(decisive(errors), written, "tasks of other workers")
        written.sort(key=lambda task: task.index)
        return rpc.WriteStateReply(tasks=written, topology_id=record.id)

    async def _ask(
        self,
        view: ClusterView,
        topology_id: str,
        address: str,
        indexes: Sequence[int],
        asked: rpc.WriteStateRequest,
        tasks: int,
    ) -> worker_pb2.WriteTaskStatesReply:
        stub = self._queries.stub(view, topology_id, address)
        request = worker_pb2.WriteTaskStatesRequest(
            topology_id=topology_id,
            component=asked.component,
            indexes=indexes,
            changes=asked.changes,
            wait_s=asked.wait_s,
            tasks=tasks,
        )
        try:
            reply: worker_pb2.WriteTaskStatesReply = await stub.WriteState(request, timeout=asked.wait_s + CALL_S)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, f"worker at {address}") from None
        if [task.index for task in reply.tasks] != list(indexes):
            raise ProtocolError(f"worker at {address} gave an answer that is not of the tasks that were asked")
        return reply


def indexes_of(changes: Sequence[pb.StateChange], tasks: int, component: str) -> list[int]:
    """Return the indexes of the tasks that are asked: those that the changes name, or all if one names none.

    Raises UsageError if the component has no such task.
    """
    named = {one.index for one in changes if one.HasField("index")}
    beyond = next((index for index in sorted(named) if index >= tasks), None)
    if beyond is not None:
        raise UsageError(f"component '{component}' has tasks 0 to {tasks - 1}, and no task {beyond}")
    return sorted(named) if all(one.HasField("index") for one in changes) else list(range(tasks))
