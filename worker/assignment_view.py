"""What a worker reads out of one snapshot of ZooKeeper: pure, so that a snapshot decides and a watch only wakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from tupletree.parallelism import ExecutorTasks
from tupletree.v1 import topology_pb2

from .debugging.settings import DebugSettings
from .engine import local_tasks
from .launch_file import slot_name
from .network.peer_links import Peer

Presences = Mapping[tuple[str, int], topology_pb2.WorkerPresence]


@dataclass(frozen=True, slots=True)
class AssignmentView:
    """The topology as one worker sees it.

    ``peers``: for each other slot of the assignment, the worker that runs there, None while it is not known.
    ``remote_tasks``: the tasks of each of those slots. ``workers``: the ids of all workers alive, this one's too.
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


def view(
    slot: str,
    record: topology_pb2.TopologyRecord | None,
    assignment: topology_pb2.Assignment | None,
    presences: Presences,
) -> AssignmentView | None:
    """What the worker in ``slot`` should follow; None if the topology has no place for it any more."""
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
            Peer(presence.worker_id, f"{presence.host}:{presence.port}", tasks) if presence is not None else None
        )
    return AssignmentView(
        version=assignment.version,
        executors=_executors(own),
        is_active=record.status == topology_pb2.TOPOLOGY_STATUS_ACTIVE,
        peers=peers,
        remote_tasks=remote_tasks,
        workers=frozenset(presence.worker_id for presence in presences.values()),
        shards=tuple(assignment.shards),
        shard_version=assignment.shard_version,
        observed=DebugSettings.of(record),
    )


def has_place(latest: AssignmentView | None, executors: tuple[ExecutorTasks, ...]) -> TypeGuard[AssignmentView]:
    """Whether a worker that was built with these executors still has its place; given others, another worker starts.

    To be asked of each snapshot from the first on: the assignment may have changed while the worker was built.
    """
    return latest is not None and latest.executors == executors


def _executors(worker: topology_pb2.WorkerAssignment) -> tuple[ExecutorTasks, ...]:
    return tuple((executor.first_task, executor.last_task) for executor in worker.executors)
