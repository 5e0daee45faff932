"""Sizes of the states of a topology: nimbus asks the workers of the tasks, all at once, and passes the sizes on.

A worker that does not answer leaves its tasks without a size, with the reason: the others are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import grpc.aio

from tupletree._address import address_of
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import NotFoundError, ProtocolError, TupletreeError, UnavailableError
from tupletree.parallelism import tasks_of_record
from tupletree.state.sizes import MAX_LARGEST, MAX_LARGEST_KEY_BYTES, precision_of, precision_on_wire
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1 import worker_pb2

from .cluster_view import ClusterView
from .leader_api import LeaderApi
from .state_queries import StateQueries, tasks_of_component

CALL_S: Final = 6.0
_MAX_TEXT: Final = 1_000
_MAX_AGE_S: Final = 1e9

Place = tuple[str, int]
"""A component, and the index of one of its tasks."""


class SizeQueries:
    """Questions about sizes, over the channels to the workers that ``queries`` keeps."""

    def __init__(self, leader_api: LeaderApi, queries: StateQueries) -> None:
        self._leader_api = leader_api
        self._queries = queries

    async def measure(self, record: pb.TopologyRecord, component: str) -> rpc.MeasureStatesReply:
        """Return the sizes of a component's states, or of all if it is "", of a topology that the caller may see.

        Raises:
            NotFoundError: there is no such component, or it has no state.
            UnavailableError: this nimbus does not have the topology's bundle yet.
        """
        view = await self._leader_api.view()
        if component:
            tasks_of_component(record, component)
        spec = await self._leader_api.outline(record)
        places = places_of(record, spec, component)
        workers = places_of_workers(view.assignment(record.id), places)
        asked = [address for address in workers if address]
        replies = await asyncio.gather(
            *(self._ask(view, record.id, address, component, workers[address]) for address in asked)
        )
        found = {place: size for reply in replies for place, size in reply.items()}
        for place in workers.get("", {}).values():
            found[place] = _failed(place, "the task has no worker")
        return rpc.MeasureStatesReply(topology_id=record.id, tasks=with_state(found, spec, component))

    async def _ask(
        self, view: ClusterView, topology_id: str, address: str, component: str, places: Mapping[int, Place]
    ) -> dict[Place, pb.TaskStateSize]:
        """Return the sizes of the tasks of one worker."""
        request = worker_pb2.MeasureTaskStatesRequest(topology_id=topology_id, component=component)
        try:
            reply = await self._queries.stub(view, topology_id, address).MeasureStates(request, timeout=CALL_S)
            return checked(reply, places, address)
        except grpc.aio.AioRpcError as error:
            reason: TupletreeError = from_rpc_error(error, f"worker at {address}")
        except ProtocolError as error:
            reason = error
        return {place: _failed(place, str(reason)) for place in places.values()}


def places_of(record: pb.TopologyRecord, spec: pb.TopologySpec, component: str = "") -> dict[int, Place]:
    """Return the tasks that may have a state, by task: spouts have one with aligned checkpoints only.

    ``component``: only of this one; "": of all. Raises as ``measure``.
    """
    if not spec.components:
        raise UnavailableError(f"the code of topology '{record.name}' is being copied to this nimbus; try again")
    tasks = tasks_of_record(record)
    stateful = [one.id for one in spec.components if one.keeps_state and component in ("", one.id)]
    if component and not stateful:
        raise _stateless(spec, component)
    return {task: (one, index) for one in stateful for index, task in enumerate(tasks[one])}


def with_state(
    found: Mapping[Place, pb.TaskStateSize], spec: pb.TopologySpec, component: str = ""
) -> list[pb.TaskStateSize]:
    """Return the sizes in order, without those of spouts that save no position.

    ``component``: all are of this one; "": of all. Raises NotFoundError if it is a spout that saves none.
    """
    spouts = {one.id for one in spec.components if one.kind == pb.COMPONENT_KIND_SPOUT}
    left = [found[place] for place in sorted(found) if found[place].provider or place[0] not in spouts]
    if component and not left:
        raise _stateless(spec, component)
    return left


def _stateless(spec: pb.TopologySpec, component: str) -> NotFoundError:
    bolts = [one.id for one in spec.components if one.keeps_state and one.kind != pb.COMPONENT_KIND_SPOUT]
    others = f"; states are kept by {', '.join(bolts)}" if bolts else ""
    return NotFoundError(f"component '{component}' has no state{others}")


def places_of_workers(assignment: pb.Assignment, places: Mapping[int, Place]) -> dict[str, dict[int, Place]]:
    """Return the tasks by the address of their worker; "" for those that have none."""
    found: dict[str, dict[int, Place]] = {}
    left = dict(places)
    for worker in assignment.workers:
        for executor in worker.executors:
            for task in range(executor.first_task, executor.last_task + 1):
                if task in left:
                    found.setdefault(address_of(worker.host, worker.port), {})[task] = left.pop(task)
    return found | ({"": left} if left else {})


def checked(
    reply: worker_pb2.MeasureTaskStatesReply, places: Mapping[int, Place], address: str
) -> dict[Place, pb.TaskStateSize]:
    """Return the sizes in the reply of a worker, which may run any code. Raises ProtocolError."""
    wanted = set(places.values())
    found: dict[Place, pb.TaskStateSize] = {}
    for one in reply.tasks:
        place = one.component, one.index
        if place not in wanted or place in found or not _are_bounded(one.largest):
            raise ProtocolError(f"worker at {address} gave an answer that is not of its tasks with a state")
        one.precision = precision_on_wire(precision_of(one.precision))
        one.age_s = min(max(0.0, one.age_s), _MAX_AGE_S) if one.age_s == one.age_s else 0.0  # JSON lacks NaN
        for name in ("provider", "failure", "write_refusal"):
            setattr(one, name, getattr(one, name)[:_MAX_TEXT])
        found[place] = one
    for place in wanted - found.keys():
        found[place] = _failed(place, "its worker reports no state of it")
    return found


def _are_bounded(largest: Sequence[pb.LargeEntry]) -> bool:
    return len(largest) <= MAX_LARGEST and all(len(one.key) <= MAX_LARGEST_KEY_BYTES for one in largest)


def _failed(place: Place, reason: str) -> pb.TaskStateSize:
    return pb.TaskStateSize(component=place[0], index=place[1], failure=reason)
