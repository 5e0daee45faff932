"""Questions about the states of a topology: nimbus passes them to the workers of the tasks, and their answers on.

    keys:  every task that can have one of them is asked, one call per worker, all at once
    list:  task after task, from a position, until the page is full or LIST_S have passed

Keys and values stay encoded: nimbus knows no class of a user, and opens no store of a topology.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc.aio

from tupletree._address import address_of
from tupletree._checkpoints.places import indexes_of
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._limits import shown
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import towards_workers
from tupletree.errors import NotFoundError, ProtocolError, UnavailableError, UsageError
from tupletree.parallelism import tasks_of_record
from tupletree.state.answers import (
    DEFAULT_ENTRIES,
    MAX_BULK_BYTES,
    MAX_BYTES,
    check_keys,
    check_limit,
    fault_of,
    fitting,
    parse_position,
    position,
)
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1 import worker_pb2
from tupletree.v1.worker_pb2_grpc import WorkerStub

from .cluster_view import ClusterView
from .leader_api import LeaderApi

CALL_S: Final = 6.0
BULK_CALL_S: Final = 30.0
LIST_S: Final = 2.0

Workers = Mapping[str, Sequence[int]]
"""The indexes of the asked tasks by the address of their worker."""


class StateQueries:
    """Questions to workers, over one channel per worker that was asked."""

    def __init__(self, leader_api: LeaderApi) -> None:
        self._leader_api = leader_api
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}  # by topology id and address

    async def read(self, record: pb.TopologyRecord, asked: rpc.ReadStateRequest) -> rpc.ReadStateReply:
        """Answer a question about a topology that the caller may see. ``asked.name`` is not read.

        Raises:
            NotFoundError: there is no such component, or it has no state.
            UsageError: the question is malformed or too large, or the provider cannot be read from outside.
            UnavailableError: a task does not run, or its worker or its store does not answer.
        """
        view = await self._leader_api.view()
        tasks = tasks_of_component(record, asked.component)
        if asked.keys:
            check_keys(asked.keys)
            return await self._values(view, record, asked, indexes_of(asked.keys, len(tasks)))
        if asked.is_live:
            raise UsageError("live values can only be asked for by key: a list would hold up the tasks")
        return await self._page(view, record, asked, len(tasks))

    async def hold(self, record: pb.TopologyRecord, hold_s: float) -> rpc.HoldCheckpointsReply:
        """Have the checkpoint spout of a topology hold its checkpoints.

        Raises:
            NotFoundError: the topology has no states.
            UsageError: the time is none, or too long.
            UnavailableError: the checkpoint spout does not run, or its worker does not answer.
        """
        view = await self._leader_api.view()
        if CHECKPOINT_SPOUT not in record.tasks:
            raise NotFoundError(f"topology '{record.name}' has no component with a state")
        [address] = workers_of(view.assignment(record.id), record, CHECKPOINT_SPOUT, [0])
        stub = self.stub(view, record.id, address)
        request = worker_pb2.HoldTaskCheckpointsRequest(topology_id=record.id, hold_s=hold_s)
        try:
            reply = await stub.HoldCheckpoints(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, f"worker at {address}") from None
        view.leader_state.held_until_s[record.id] = view.now_s + hold_s
        age_s = view.leader_state.quiet_age_s(record.id, len(view.assignment(record.id).workers), view.now_s)
        return rpc.HoldCheckpointsReply(topology_id=record.id, held=reply.held, quiet_age_s=age_s)

    def stub(self, view: ClusterView, topology_id: str, address: str) -> Any:
        """Return what calls a worker."""
        return WorkerStub(self._channel(view, topology_id, address))

    async def close(self) -> None:
        """Close all channels."""
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(one.close() for one in channels.values()))

    async def _values(
        self, view: ClusterView, record: pb.TopologyRecord, asked: rpc.ReadStateRequest, indexes: Sequence[int]
    ) -> rpc.ReadStateReply:
        workers = workers_of(view.assignment(record.id), record, asked.component, indexes)
        requests = {
            address: worker_pb2.ReadTaskStatesRequest(
                topology_id=record.id,
                component=asked.component,
                indexes=those,
                is_live=asked.is_live,
                keys=dict.fromkeys(asked.keys),
                max_bytes=MAX_BYTES,
            )
            for address, those in workers.items()
        }
        calls = [self._ask(view, record.id, address, request) for address, request in requests.items()]
        replies = await asyncio.gather(*calls)
        found = sorted((task for reply in replies for task in reply.tasks), key=lambda task: task.index)
        return rpc.ReadStateReply(tasks=fitting(found), topology_id=record.id)

    async def _page(
        self, view: ClusterView, record: pb.TopologyRecord, asked: rpc.ReadStateRequest, tasks: int
    ) -> rpc.ReadStateReply:
        limit = asked.limit or DEFAULT_ENTRIES
        check_limit(limit, is_bulk=asked.is_bulk)
        index, after = parse_position(asked.after)
        reply = rpc.ReadStateReply(topology_id=record.id)
        left, until_s = MAX_BULK_BYTES if asked.is_bulk else MAX_BYTES, time.monotonic() + LIST_S
        while index < tasks:
            if limit <= 0 or left <= 0 or (reply.tasks and time.monotonic() > until_s):
                reply.next = position(index, after)
                break
            [address] = workers_of(view.assignment(record.id), record, asked.component, [index])
            request = worker_pb2.ReadTaskStatesRequest(
                topology_id=record.id,
                component=asked.component,
                indexes=[index],
                after=after,
                limit=limit,
                max_bytes=left,
                is_bulk=asked.is_bulk,
            )
            [task] = (await self._ask(view, record.id, address, request)).tasks
            reply.tasks.append(task)
            limit -= len(task.entries)
            left -= sum(len(one.key) + len(one.value) for one in task.entries)
            if not task.has_more:
                index, after = index + 1, b""
            elif task.entries:
                after = task.entries[-1].key
            else:
                left = 0
        return reply

    async def _ask(
        self, view: ClusterView, topology_id: str, address: str, request: worker_pb2.ReadTaskStatesRequest
    ) -> worker_pb2.ReadTaskStatesReply:
        stub = self.stub(view, topology_id, address)
        try:
            timeout_s = BULK_CALL_S if request.is_bulk else CALL_S
            reply: worker_pb2.ReadTaskStatesReply = await stub.ReadState(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, f"worker at {address}") from None
        fault = fault_of(reply.tasks, request)
        if fault:
            raise ProtocolError(f"worker at {address} gave an answer that {fault}")
        return reply

    def _channel(self, view: ClusterView, topology_id: str, address: str) -> grpc.aio.Channel:
        key = topology_id, address
        if key not in self._channels:
            self._forget_others(view)
            self._channels[key] = aio_channel(address, towards_workers("nimbus", topology_id))
        return self._channels[key]

    def _forget_others(self, view: ClusterView) -> None:
        """Close the channels to workers that are no longer assigned."""
        assigned = {
            (topology_id, address_of(worker.host, worker.port))
            for topology_id, stored in view.state.assignments.items()
            for worker in stored.value.workers
        }
        for key in self._channels.keys() - assigned:
            task = asyncio.ensure_future(self._channels.pop(key).close())
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def workers_of(
    assignment: pb.Assignment, record: pb.TopologyRecord, component: str, indexes: Sequence[int]
) -> dict[str, list[int]]:
    """Return the indexes by the address of the worker that runs the task. Raises UnavailableError if one has none."""
    first = tasks_of_component(record, component).start
    addresses = {
        task: address_of(worker.host, worker.port)
        for worker in assignment.workers
        for executor in worker.executors
        for task in range(executor.first_task, executor.last_task + 1)
    }
    found: dict[str, list[int]] = {}
    for index in indexes:
        address = addresses.get(first + index)
        if address is None:
            raise UnavailableError(
                f"task {index} of component '{component}' has no worker; 'tupletree state … --direct' reads the store"
            )
        found.setdefault(address, []).append(index)
    return found


def tasks_of_component(record: pb.TopologyRecord, component: str) -> range:
    """Return the ids of the tasks of a component. Raises NotFoundError if the topology has no such component."""
    known = tasks_of_record(record)
    if component not in known:
        names = ", ".join(sorted(one for one in known if not one.startswith("$")))
        raise NotFoundError(f"topology '{record.name}' has no component {shown(component)}; it has {names}")
    return known[component]
