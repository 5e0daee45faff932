"""The part of the assignments in ZooKeeper that concerns this supervisor's slots.

``plan_work`` is a pure function of one snapshot. A worker is restarted when its ``LocalAssignment`` changes. Therefore
a ``LocalAssignment`` holds exactly the data that a process gets at its start and cannot learn later: its topology,
code, configuration and executors. (A worker follows the addresses of its peers and ackers, and live changes
of the configuration, by itself.)
"""

from __future__ import annotations  # pure

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tupletree._wire.conf_changes import launch_conf_json
from tupletree.errors import InternalError
from tupletree.parallelism import tasks_of_record
from tupletree.v1.topology_pb2 import Assignment, TopologyRecord, WorkerAssignment

MAX_SILENCE_S = 600.0
"""Upper limit of ``topology.worker.timeout.secs`` (Storm's ``worker.max.timeout.secs``)."""


@dataclass(frozen=True)
class LocalAssignment:
    """The part of a topology that one worker runs."""

    topology_id: str
    bundle_sha256: str
    bundle_bytes: int
    conf_json: str
    executors: tuple[tuple[int, int], ...]  # first and last task of each, ascending
    silence_timeout_s: float | None = None  # None: the supervisor's own; otherwise longer
    tasks: tuple[tuple[str, int, int], ...] = ()  # component, first and last task; empty: as submitted
    owner: str = ""  # the user whose workers they are; "": they run as the supervisor does

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LocalAssignment:
        """Parse the result of ``to_json``. Raises InternalError for anything else."""
        try:
            executors = tuple((int(first), int(last)) for first, last in facts["executors"])
            silence = facts["silence_timeout_s"]
            tasks = tuple((str(name), int(first), int(last)) for name, first, last in facts.get("tasks", ()))
            return cls(
                topology_id=str(facts["topology_id"]),
                bundle_sha256=str(facts["bundle_sha256"]),
                bundle_bytes=int(facts["bundle_bytes"]),
                conf_json=str(facts["conf_json"]),
                executors=executors,
                silence_timeout_s=None if silence is None else float(silence),
                tasks=tasks,
                owner=str(facts.get("owner", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InternalError(f"not a valid assignment file: {error!r}") from error


def plan_work(
    assignments: Iterable[Assignment],
    records: Mapping[str, TopologyRecord],
    supervisor_id: str,
    ports: Collection[int],
    silence_timeout_s: float,
    *,
    has_owners: bool = False,
) -> dict[int, LocalAssignment | None]:
    """Return the work for each of ``ports``, or None for a port without work. ``has_owners``: work names its owner.

    An assignment without a record belongs to a topology that is being removed, and is ignored. So is an assignment of
    tasks that the record does not have: their number changed between the reads, and the next snapshot shows both. If a
    snapshot taken during a change shows two topologies in one slot, the topology assigned under the newer epoch wins,
    then the topology with the greater id. The next snapshot shows only one.
    """
    plan: dict[int, LocalAssignment | None] = dict.fromkeys(ports)
    for assignment in sorted(assignments, key=lambda one: (one.epoch, one.topology_id)):
        record = records.get(assignment.topology_id)
        if record is None:
            continue
        for worker in assignment.workers:
            is_mine = worker.supervisor_id == supervisor_id and worker.port in plan
            if is_mine and _is_of(record, worker):
                owner = record.owner if has_owners else ""
                plan[worker.port] = replace(_work(record, worker, silence_timeout_s), owner=owner)
    return plan


def newest_epoch(assignments: Iterable[Assignment]) -> int:
    """Return the newest leader epoch among assignments; 0 without assignments."""
    return max((assignment.epoch for assignment in assignments), default=0)


def _work(record: TopologyRecord, worker: WorkerAssignment, silence_timeout_s: float) -> LocalAssignment:
    return LocalAssignment(
        topology_id=record.id,
        bundle_sha256=record.bundle_sha256,
        bundle_bytes=record.bundle_bytes,
        conf_json=launch_conf_json(record),
        executors=tuple(sorted((one.first_task, one.last_task) for one in worker.executors)),
        silence_timeout_s=_silence_s(record.conf_json, silence_timeout_s),
        tasks=_changed_tasks(record),
    )


def _is_of(record: TopologyRecord, worker: WorkerAssignment) -> bool:
    """True if the tasks of a worker are among those that the topology has now."""
    first = record.first_task or 1
    end = first + sum(record.tasks.values())
    return not record.tasks or all(first <= one.first_task and one.last_task < end for one in worker.executors)


def _changed_tasks(record: TopologyRecord) -> tuple[tuple[str, int, int], ...]:
    """Return the tasks of each component, if a rebalance has changed their number."""
    if record.first_task == 0:
        return ()
    return tuple((name, ids.start, ids.stop - 1) for name, ids in tasks_of_record(record).items())


def _silence_s(conf_json: str, least_s: float) -> float | None:
    """Return the topology's timeout if longer than ``least_s``, else None. The launch reports an invalid one."""
    try:
        wanted = float(json.loads(conf_json or "{}").get("topology.worker.timeout.secs") or 0.0)
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None
    return min(wanted, max(MAX_SILENCE_S, least_s)) if wanted > least_s else None
