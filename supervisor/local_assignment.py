"""The part of the assignments in ZooKeeper that concerns this supervisor's slots.

``plan_work`` is a pure function of one snapshot. A worker is restarted when its ``LocalAssignment`` changes. So that
holds exactly what a process is started with and cannot learn later: its topology, code, configuration and executors.
(The addresses of its peers and ackers a worker follows by itself.)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tupletree.errors import InternalError
from tupletree.v1.topology_pb2 import Assignment, TopologyRecord, WorkerAssignment

MAX_SILENCE_S = 600.0
"""``topology.worker.timeout.secs`` cannot ask for more (Storm's ``worker.max.timeout.secs``)."""


@dataclass(frozen=True)
class LocalAssignment:
    """One worker's worth of a topology."""

    topology_id: str
    bundle_sha256: str
    bundle_bytes: int
    conf_json: str
    executors: tuple[tuple[int, int], ...]  # first and last task of each, ascending
    silence_timeout_s: float | None = None  # longer than the supervisor's own; None: the supervisor's own

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LocalAssignment:
        """The opposite of ``to_json``. Raises InternalError for anything else."""
        try:
            executors = tuple((int(first), int(last)) for first, last in facts["executors"])
            silence = facts["silence_timeout_s"]
            return cls(
                topology_id=str(facts["topology_id"]),
                bundle_sha256=str(facts["bundle_sha256"]),
                bundle_bytes=int(facts["bundle_bytes"]),
                conf_json=str(facts["conf_json"]),
                executors=executors,
                silence_timeout_s=None if silence is None else float(silence),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InternalError(f"not a description of work: {error!r}") from error


def plan_work(
    assignments: Iterable[Assignment],
    records: Mapping[str, TopologyRecord],
    supervisor_id: str,
    ports: Collection[int],
    silence_timeout_s: float,
) -> dict[int, LocalAssignment | None]:
    """What belongs in each of ``ports``; None: nothing.

    An assignment without a record belongs to a topology that is being removed: nothing. If a snapshot taken amid a
    change shows two topologies in one slot, the one that was assigned under the newer epoch wins, then the one with
    the greater id; the next snapshot shows one.
    """
    plan: dict[int, LocalAssignment | None] = dict.fromkeys(ports)
    for assignment in sorted(assignments, key=lambda one: (one.epoch, one.topology_id)):
        record = records.get(assignment.topology_id)
        if record is None:
            continue
        for worker in assignment.workers:
            if worker.supervisor_id == supervisor_id and worker.port in plan:
                plan[worker.port] = _work(record, worker, silence_timeout_s)
    return plan


def newest_epoch(assignments: Iterable[Assignment]) -> int:
    """The highest leader's epoch that these assignments prove; 0 without any."""
    return max((assignment.epoch for assignment in assignments), default=0)


def _work(record: TopologyRecord, worker: WorkerAssignment, silence_timeout_s: float) -> LocalAssignment:
    return LocalAssignment(
        topology_id=record.id,
        bundle_sha256=record.bundle_sha256,
        bundle_bytes=record.bundle_bytes,
        conf_json=record.conf_json,
        executors=tuple(sorted((one.first_task, one.last_task) for one in worker.executors)),
        silence_timeout_s=_silence_s(record.conf_json, silence_timeout_s),
    )


def _silence_s(conf_json: str, least_s: float) -> float | None:
    """The topology's own limit; None too where its configuration cannot be read, as its launch will report."""
    try:
        wanted = float(json.loads(conf_json or "{}").get("topology.worker.timeout.secs") or 0.0)
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None
    return min(wanted, max(MAX_SILENCE_S, least_s)) if wanted > least_s else None
