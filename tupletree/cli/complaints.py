"""Errors of a topology's components, repeats folded, and which of them are over. Pure.

An error is *over* when its component is healthy since: every worker that runs the component is ready, and

*   the worker that had the error was started again after it, and that is a minute ago; or
*   it is ten minutes old: the component has reported it and gone on, and has not reported it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tupletree.parallelism import task_ranges
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

RESTARTED_S = 60.0
QUIET_S = 600.0


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error of a component, however often it came: ``latest`` is the newest."""

    latest: pb.ComponentError
    count: int
    first_unix_s: float
    tasks: tuple[int, ...]
    places: tuple[str, ...]  # host:port
    is_over: bool


def complaints(
    reply: nimbus_pb2.DescribeTopologyReply, now_unix_s: float, component: str | None = None
) -> list[Complaint]:
    """The errors of a topology, newest first; those that say the same of one component are one."""
    groups: dict[tuple[str, str], list[pb.ComponentError]] = {}
    for error in reply.errors:
        if component in (None, error.component_id):
            groups.setdefault((error.component_id, error.message), []).append(error)
    found = [_folded(reply, group, now_unix_s) for group in groups.values()]
    return sorted(found, key=lambda one: -one.latest.at_unix_s)


def latest_of_each(found: Sequence[Complaint]) -> list[Complaint]:
    """The newest of each component."""
    first: dict[str, Complaint] = {}
    for one in found:
        first.setdefault(one.latest.component_id, one)
    return list(first.values())


def _folded(
    reply: nimbus_pb2.DescribeTopologyReply, group: Sequence[pb.ComponentError], now_unix_s: float
) -> Complaint:
    latest = max(group, key=lambda error: error.at_unix_s)
    return Complaint(
        latest=latest,
        count=len(group),
        first_unix_s=min(error.at_unix_s for error in group),
        tasks=tuple(sorted({error.task_id for error in group})),
        places=tuple(sorted({f"{error.host}:{error.port}" for error in group})),
        is_over=_is_over(reply, latest, now_unix_s),
    )


def _is_over(reply: nimbus_pb2.DescribeTopologyReply, error: pb.ComponentError, now_unix_s: float) -> bool:
    tasks = set(task_ranges(dict(reply.summary.record.tasks)).get(error.component_id, ()))
    workers = [one for one in reply.workers if not tasks or tasks.intersection(one.tasks)]
    age_s = now_unix_s - error.at_unix_s
    if not workers or not all(one.ready for one in workers):
        return False
    there = [one for one in workers if (one.host, one.port) == (error.host, error.port)] or workers
    has_restarted = all(one.uptime_s < age_s for one in there)
    return age_s >= (RESTARTED_S if has_restarted else QUIET_S)
