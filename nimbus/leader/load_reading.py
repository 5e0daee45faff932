"""Inputs of autoscaling, from what the leader knows of a topology: counters of its load, and facts. Pure."""

from __future__ import annotations  # pure

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tupletree._wire.names import is_system
from tupletree._wire.statuses import decode_status, lag_of
from tupletree.parallelism import tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from ..statistics.topology_statistics import TopologyStatistics
from .autoscaling import WAITED, Facts
from .isolation import Isolation
from .load_history import Reading, Thread
from .scheduler import Slot


def blocking_components(record: pb.TopologyRecord, spec: pb.TopologySpec) -> frozenset[str]:
    """Return the components whose executors have threads of their own, as they are declared."""
    conf = json.loads(record.conf_json or "{}")
    return frozenset(
        one.id
        for one in spec.components
        if one.is_blocking or {**conf, **json.loads(one.conf_json or "{}")}.get("topology.blocking")
    )


def reading(
    statistics: TopologyStatistics,
    record: pb.TopologyRecord,
    assignment: pb.Assignment,
    blocking: frozenset[str],
    now_s: float,
) -> Reading:
    """Return the counters of all tasks of a topology now. ``blocking``: as ``blocking_components`` returns them."""
    busy_s: dict[int, float] = {}
    threads: dict[int, Thread] = {}
    congested = set()
    for worker in assignment.workers:
        shared = Thread((worker.supervisor_id, worker.port), is_shared=True)
        for executor in worker.executors:
            found = {
                task: latest
                for task in range(executor.first_task, executor.last_task + 1)
                if (latest := statistics.latest(task)) is not None
            }
            is_apart = any(one.found_blocking or one.component_id in blocking for one in found.values())
            thread = Thread(executor.first_task, is_shared=False) if is_apart else shared
            for task, latest in found.items():
                busy_s[task], threads[task] = latest.execute_s, thread
                congested |= {latest.component_id} if latest.congested else set()
    return Reading(now_s, busy_s, threads, frozenset(congested), _lags(statistics, record, now_s))


def _lags(statistics: TopologyStatistics, record: pb.TopologyRecord, now_s: float) -> dict[str, int]:
    """Return the messages that wait in queues and logs, by spout, as the spouts' statuses tell them."""
    found = {}
    for component, tasks in tasks_of_record(record).items():
        statuses = [decode_status(one.status_json) or {} for one in statistics.statuses(tasks, now_s)]
        for kind in ("queue", "log"):
            lag = lag_of(kind, [one for one in statuses if one.get("kind") == kind])
            if lag is not None:
                found[component] = lag
    return found


def facts(
    record: pb.TopologyRecord,
    spec: pb.TopologySpec,
    own_threads: frozenset[str],
    running_workers: int,
    free: FreeSlots,
    now_unix_s: float,
    obstacle: str,
) -> Facts:
    """Return what a decision needs to know beside the load. ``obstacle``: why nothing may be changed, or ""."""
    consumers: dict[str, set[str]] = {}
    for component in spec.components:
        for one in component.inputs:
            if not is_system(one.stream):
                consumers.setdefault(one.source, set()).add(component.id)
    since_s = max(0.0, now_unix_s - record.autoscaled.at_unix_s) if record.HasField("autoscaled") else math.inf
    return Facts(
        executors=dict(record.executors),
        tasks=dict(record.tasks),
        workers=record.workers,
        running_workers=running_workers,
        free_slots=free.number,
        no_slot=free.no_slot,
        consumers=consumers,
        own_threads=own_threads,
        since_change_s=since_s,
        floors=_floors(record.autoscaled),
        obstacle=obstacle,
    )


def _floors(last: pb.AutoscaleChange) -> dict[str, int]:
    is_held = last.executors > last.executors_before and last.reason.startswith(WAITED)
    return {last.component: last.executors} if is_held else {}


def apart(reading: Reading, tasks: Mapping[str, Sequence[int]]) -> frozenset[str]:
    """Return the components with a thread of its own for at least half of their tasks."""
    found = set()
    for component, ids in tasks.items():
        known = [reading.threads[one].is_shared for one in ids if one in reading.threads]
        if known and 2 * sum(known) <= len(known):
            found.add(component)
    return frozenset(found)


class FreeSlots(NamedTuple):
    """The free slots that a topology may use, and the clause that says that there are none."""

    number: int
    no_slot: str = "no slot is free"


def free_slots_of(
    topology_id: str,
    free: Iterable[Slot],
    isolation: Isolation,
    records: Iterable[pb.TopologyRecord],
    assignments: Mapping[str, pb.Assignment],
    blacklisted: Collection[str],
) -> FreeSlots:
    """Return the free slots that a topology may use and no rebalance under way will take.

    ``free``: those that no topology is assigned to. ``assignments``: by topology id. ``blacklisted``: supervisors that
    get no new workers, unless something that must run has no other slot.
    """
    home = isolation.homes.get(topology_id)
    usable = sum(slot.supervisor_id not in blacklisted and isolation.may_use(topology_id, slot) for slot in free)
    promised = promised_slots([one for one in records if isolation.homes.get(one.id) == home], assignments)
    if not isolation.homes:
        return FreeSlots(max(0, usable - promised))
    return FreeSlots(max(0, usable - promised), f"no slot is free on {isolation.machines_text(topology_id)}")


def promised_slots(records: Iterable[pb.TopologyRecord], assignments: Mapping[str, pb.Assignment]) -> int:
    """Return the free slots that will be taken by the rebalances under way. ``assignments``: by topology id."""
    promised = 0
    for record in records:
        running = len(assignments[record.id].workers) if record.id in assignments else 0
        promised += max(0, record.pending.workers - running)
    return promised


def layout(record: pb.TopologyRecord, assignment: pb.Assignment) -> tuple[Any, ...]:
    """Return what the load of a topology depends on, to compare: where its tasks run, and in which executors."""
    return assignment.version, record.version, record.first_task, record.workers, *sorted(record.executors.items())
