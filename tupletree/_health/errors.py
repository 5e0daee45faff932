"""Errors of a topology's components, with repeats folded, classified as current or over. Pure.

An error is *over* when its component has recovered: every worker that runs the component is ready, and

*   the worker with the error was restarted after the error and has run for 90 seconds; or
*   the error is ten minutes old: the component continued after it and has not reported it again.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

RESTARTED_S = 90.0  # longer than a supervisor remembers deaths (60 s), to agree with the health verdict
QUIET_S = 600.0


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error of a component, with all its repeats. ``latest`` is the newest occurrence."""

    latest: pb.ComponentError
    count: int
    first_unix_s: float
    tasks: tuple[int, ...]
    places: tuple[str, ...]  # host:port
    is_over: bool


def complaints(
    errors: Sequence[pb.ComponentError],
    tasks: Mapping[str, Sequence[int]],
    workers: Sequence[nimbus_pb2.WorkerSummary],
    now_unix_s: float,
    component: str | None = None,
) -> list[Complaint]:
    """Return the errors of a topology, newest first. Equal messages of a component are folded into one entry.

    ``tasks``: the task ids of each component. ``workers``: the topology's current workers.
    """
    groups: dict[tuple[str, str], list[pb.ComponentError]] = {}
    for error in errors:
        if component in (None, error.component_id):
            groups.setdefault((error.component_id, error.message), []).append(error)
    found = [
        _folded(group, _running(set(tasks.get(component_id, ())), workers), now_unix_s)
        for (component_id, _), group in groups.items()
    ]
    return sorted(found, key=lambda one: -one.latest.at_unix_s)


def latest_of_each(found: Sequence[Complaint]) -> list[Complaint]:
    """Return the first entry of each component; ``found`` is sorted newest first."""
    first: dict[str, Complaint] = {}
    for one in found:
        first.setdefault(one.latest.component_id, one)
    return list(first.values())


def _running(tasks: set[int], workers: Sequence[nimbus_pb2.WorkerSummary]) -> list[nimbus_pb2.WorkerSummary]:
    return [one for one in workers if not tasks or tasks.intersection(one.tasks)]


def _folded(
    group: Sequence[pb.ComponentError], workers: Sequence[nimbus_pb2.WorkerSummary], now_unix_s: float
) -> Complaint:
    latest = max(group, key=lambda error: error.at_unix_s)
    return Complaint(
        latest=latest,
        count=_count(group),
        first_unix_s=min(error.first_unix_s or error.at_unix_s for error in group),
        tasks=tuple(sorted({error.task_id for error in group})),
        places=tuple(sorted({f"{error.host}:{error.port}" for error in group})),
        is_over=_is_over(workers, latest, now_unix_s),
    )


def _count(group: Sequence[pb.ComponentError]) -> int:
    """Return how often an error occurred. An entry with a count can appear together with its own older counts."""
    counted: dict[tuple[str, int, float], int] = {}
    for error in group:
        series = (error.host, error.port, error.first_unix_s)
        counted[series] = max(counted.get(series, 0), error.count)
    return sum(counted.values()) + sum(not error.count for error in group)


def _is_over(workers: Sequence[nimbus_pb2.WorkerSummary], error: pb.ComponentError, now_unix_s: float) -> bool:
    age_s = now_unix_s - error.at_unix_s
    if not workers or not all(one.ready for one in workers):
        return False
    there = [one for one in workers if (one.host, one.port) == (error.host, error.port)] or workers
    has_restarted = all(one.uptime_s < age_s for one in there)
    if has_restarted:
        return all(one.uptime_s >= RESTARTED_S for one in there)
    return age_s >= QUIET_S
