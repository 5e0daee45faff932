"""A worker's view of one ZooKeeper snapshot. Pure: the snapshot decides, a watch only wakes the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tupletree._address import address_of
from tupletree._wire.conf_changes import digest, launch_conf_json, live_values
from tupletree.parallelism import ExecutorTasks
from tupletree.v1 import topology_pb2

from .debugging.settings import DebugSettings
from .engine import local_tasks
from .launch_file import slot_name
from .network.peer_links import Peer

Presences = Mapping[tuple[str, int], topology_pb2.WorkerPresence]


@dataclass(frozen=True, slots=True)
class AssignmentView:
    """The topology as seen by one worker.

    ``is_active``: spouts may emit. They may not while a worker waits for its restart with another configuration.
    ``first_task``: the first task id of the topology. ``live_conf``: keys of the configuration that running workers
    adopt. ``peers``: the worker in each other slot of the assignment, None while unknown. ``remote_tasks``: the tasks
    of each other slot. ``workers``: the ids of all workers that are alive, including this worker.
    """

    version: int
    executors: tuple[ExecutorTasks, ...]
    is_active: bool
    peers: Mapping[str, Peer | None]
    remote_tasks: Mapping[str, frozenset[int]]
    workers: frozenset[str]
    shards: tuple[topology_pb2.ShardAssignment, ...]
    shard_version: int
    observed: DebugSettings = field(default_factory=DebugSettings)
    live_conf: Mapping[str, Any] = field(default_factory=dict)
    first_task: int = 1


def view(
    slot: str,
    record: topology_pb2.TopologyRecord | None,
    assignment: topology_pb2.Assignment | None,
    presences: Presences,
    conf_digest: str = "",
) -> AssignmentView | None:
    """Return the view of the worker in ``slot``, or None if ``slot`` is no longer in the topology's assignment.

    ``conf_digest``: of the configuration that the worker was started with; "": unknown.
    """
    if record is None or assignment is None:
        return None
    placed = {slot_name(worker.supervisor_id, worker.port): worker for worker in assignment.workers}
    own = placed.pop(slot, None)
    if own is None:
        return None
    peers: dict[str, Peer | None] = {}
    remote_tasks = {}
    for name, worker in placed.items():
        tasks = local_tasks(_executors(worker))
        presence = presences.get((worker.supervisor_id, worker.port))
        remote_tasks[name] = tasks
        peers[name] = (
            Peer(presence.worker_id, address_of(presence.host, presence.port), tasks) if presence is not None else None
        )
    is_current = conf_digest in ("", digest(launch_conf_json(record)))
    return AssignmentView(
        version=assignment.version,
        executors=_executors(own),
        is_active=record.status == topology_pb2.TOPOLOGY_STATUS_ACTIVE and is_current,
        peers=peers,
        remote_tasks=remote_tasks,
        workers=frozenset(presence.worker_id for presence in presences.values()),
        shards=tuple(assignment.shards),
        shard_version=assignment.shard_version,
        observed=DebugSettings.of(record),
        live_conf=live_values(record),
        first_task=record.first_task or 1,
    )


def has_place(latest: AssignmentView | None, executors: tuple[ExecutorTasks, ...]) -> TypeGuard[AssignmentView]:
    """True if the slot is still assigned exactly these executors. Otherwise the worker ends and another is started.

    Check every snapshot, including the first: the assignment may have changed while the worker was built.
    """
    return latest is not None and latest.executors == executors


def _executors(worker: topology_pb2.WorkerAssignment) -> tuple[ExecutorTasks, ...]:
    return tuple((executor.first_task, executor.last_task) for executor in worker.executors)
