"""A topology's status: what an operator may ask for, and what follows when a wait is over.

    ACTIVE ------deactivate------> INACTIVE
    INACTIVE ----activate--------> ACTIVE
    ACTIVE, INACTIVE --rebalance-> REBALANCING     spouts pause; pending: due, resume, what to change
    REBALANCING -(due)-----------> what it was     with other workers and executors, scheduled anew
    REBALANCING --activate etc.--> REBALANCING     changes what it will be
    REBALANCING --rebalance------> REBALANCING     waits anew, for the new change
    any ---------kill------------> KILLED          spouts stop; pending: due
    KILLED ------kill------------> KILLED          waits anew
    KILLED ------(due)-----------> removed

Everything else is refused. What operators switch on to look inside (debug_settings.py) leaves the status as it is. The
wait lets the tuples in flight finish. It ends when none is left (draining.py), and at the latest after the message
timeout, unless the operator gives another time. Times are Unix seconds: the wait survives a change of leaders.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..debug_settings import DebugSettings, SetLogLevels, SetSampling, SetTracing, observed

ACTIVE = pb.TOPOLOGY_STATUS_ACTIVE
INACTIVE = pb.TOPOLOGY_STATUS_INACTIVE
REBALANCING = pb.TOPOLOGY_STATUS_REBALANCING
KILLED = pb.TOPOLOGY_STATUS_KILLED

# Of one topology: its assignment must fit into a ZooKeeper node of 1 MiB.
MAX_WORKERS = 2000
MAX_EXECUTORS = 10_000
_MAX_WAIT_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Kill:
    wait_s: float | None  # None: the topology's message timeout


@dataclass(frozen=True)
class Activate:
    pass


@dataclass(frozen=True)
class Deactivate:
    pass


@dataclass(frozen=True)
class Rebalance:
    wait_s: float | None
    workers: int  # 0: unchanged
    executors: Mapping[str, int]  # per component; one that is absent stays as it is


Request = Kill | Activate | Deactivate | Rebalance | DebugSettings


def status_name(status: pb.TopologyStatus) -> str:
    """``ACTIVE`` and so on."""
    return str(pb.TopologyStatus.Name(status)).removeprefix("TOPOLOGY_STATUS_")


def ask(record: pb.TopologyRecord, request: Request, now_s: float) -> pb.TopologyRecord:
    """The record after an operator's request; equal to ``record`` if there is nothing to do.

    Raises UsageError if the request makes no sense in this status, or not for this topology.
    """
    if record.status == KILLED and not isinstance(request, Kill):
        raise UsageError(f"topology '{record.name}' is being killed")
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    match request:
        case Kill(wait_s):
            after.status = KILLED
            after.pending.Clear()
            after.pending.due_unix_s = now_s + _wait(record, wait_s)
        case Activate():
            _resume_as(after, ACTIVE)
        case Deactivate():
            _resume_as(after, INACTIVE)
        case Rebalance(wait_s, workers, executors):
            _check_rebalance(record, workers, executors)
            resume = record.pending.resume if record.status == REBALANCING else record.status
            after.status = REBALANCING
            after.pending.Clear()
            after.pending.due_unix_s = now_s + _wait(record, wait_s)
            after.pending.resume = resume
            after.pending.workers = workers
            after.pending.executors.update(executors)
        case SetLogLevels() | SetSampling() | SetTracing():
            return observed(record, request, now_s)
    return after


def is_waiting(record: pb.TopologyRecord) -> bool:
    """Whether a kill or rebalance waits for what is under way."""
    return record.status in {KILLED, REBALANCING}


def is_due(record: pb.TopologyRecord, now_s: float, *, is_drained: bool = False) -> bool:
    """Whether the wait of a kill or rebalance is over: nothing is left to wait for, or the time is up."""
    return is_waiting(record) and (is_drained or record.pending.due_unix_s <= now_s)


def next_due(record: pb.TopologyRecord) -> float | None:
    """When a kill or rebalance is due, in Unix seconds."""
    return record.pending.due_unix_s if is_waiting(record) else None


def rebalanced(record: pb.TopologyRecord) -> pb.TopologyRecord:
    """The record after the wait of a rebalance: changed as was asked, with the status it had before."""
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    after.ClearField("pending")
    after.status = record.pending.resume
    after.workers = record.pending.workers or record.workers
    after.executors.update(record.pending.executors)
    return after


def message_timeout_s(record: pb.TopologyRecord) -> float:
    """The topology's own message timeout."""
    conf = json.loads(record.conf_json) if record.conf_json else {}
    return float(conf.get("topology.message.timeout.secs") or 30)


def _resume_as(record: pb.TopologyRecord, status: pb.TopologyStatus) -> None:
    if record.status == REBALANCING:
        record.pending.resume = status
    else:
        record.status = status


def _wait(record: pb.TopologyRecord, wait_s: float | None) -> float:
    if wait_s is None:
        return message_timeout_s(record)
    if not math.isfinite(wait_s) or not 0 <= wait_s <= _MAX_WAIT_S:
        raise UsageError(f"the wait is a number of seconds from 0 to {_MAX_WAIT_S:.0f}, not {wait_s:g}")
    return wait_s


def _check_rebalance(record: pb.TopologyRecord, workers: int, executors: Mapping[str, int]) -> None:
    if workers > MAX_WORKERS:
        raise UsageError(f"a topology can have at most {MAX_WORKERS} workers, not {workers}")
    for component, count in executors.items():
        tasks = record.tasks.get(component)
        if tasks is None:
            known = ", ".join(sorted(record.tasks))
            raise UsageError(f"topology '{record.name}' has no component '{component}'; it has {known}")
        if not 1 <= count <= tasks:
            raise UsageError(
                f"component '{component}' has {tasks} tasks for ever: it can have 1 to {tasks} executors, not {count}"
            )
    total = sum({**record.executors, **executors}.values())
    if total > MAX_EXECUTORS:
        raise UsageError(
            f"topology '{record.name}' would have {total} executors; the limit is {MAX_EXECUTORS}: ask for fewer"
        )
