"""Lifecycle of a topology: the requests of operators, and the status changes when a wait is over.

    ACTIVE ------deactivate------> INACTIVE
    INACTIVE ----activate--------> ACTIVE
    ACTIVE, INACTIVE --rebalance-> REBALANCING     spouts pause; pending: due, resume, change
    REBALANCING -(due)-----------> earlier status  with new workers, executors and tasks, scheduled from scratch
    REBALANCING --activate etc.--> REBALANCING     sets the status after the rebalance
    REBALANCING --rebalance------> REBALANCING     restarts the wait, for the new change
    ACTIVE --autoscale-----------> REBALANCING     likewise, decided by nimbus itself (autoscaling.py)
    ACTIVE, INACTIVE --set conf--> REBALANCING     if a key changes with a restart of the workers (conf_changes.py)
    ACTIVE, INACTIVE --update----> REBALANCING     to go on with other code (updates.py); --rollback-- likewise
    any ---------kill------------> KILLED          spouts stop; pending: due
    KILLED ------kill------------> KILLED          restarts the wait
    KILLED ------(due)-----------> removed

Every other request is refused. Debug settings (debug_settings.py) do not change the status. The wait lets tuples in
flight finish. It ends when none are left (draining.py), and at the latest after the message timeout or after the time
that the operator gives. Times are Unix seconds, so that the wait survives a change of leaders.
"""

from __future__ import annotations  # pure

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tupletree._health.statuses import plural
from tupletree._limits import MAX_TASKS
from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..conf_changes import SetConf, configured, restarted
from ..debug_settings import DebugSettings, SetLogLevels, SetSampling, SetTracing, observed
from ..updates import Rollback, Update, updated, version_of

ACTIVE = pb.TOPOLOGY_STATUS_ACTIVE
INACTIVE = pb.TOPOLOGY_STATUS_INACTIVE
REBALANCING = pb.TOPOLOGY_STATUS_REBALANCING
KILLED = pb.TOPOLOGY_STATUS_KILLED

# Per topology: the assignment must fit into a ZooKeeper node of 1 MiB.
MAX_WORKERS = 2000
MAX_EXECUTORS = 10_000
_MAX_WAIT_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Kill:
    wait_s: float | None  # None: the topology's message timeout
    asked_by: str = ""  # the user; "": tokens are disabled


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
    executors: Mapping[str, int]  # per component; absent components keep theirs
    tasks: Mapping[str, int] = field(default_factory=dict)  # likewise


@dataclass(frozen=True)
class Autoscale:
    """A rebalance that nimbus itself has decided on, for the topology as it was then."""

    seen: pb.TopologyRecord
    change: pb.AutoscaleChange


Request = Kill | Activate | Deactivate | Rebalance | Autoscale | SetConf | Update | Rollback | DebugSettings


def status_name(status: pb.TopologyStatus) -> str:
    """Return the status without its prefix, such as ``ACTIVE``."""
    return str(pb.TopologyStatus.Name(status)).removeprefix("TOPOLOGY_STATUS_")


def ask(record: pb.TopologyRecord, request: Request, now_s: float) -> pb.TopologyRecord:
    """Return the record after an operator's request; equal to ``record`` if there is nothing to do.

    Raises UsageError if the request is invalid in this status or for this topology.
    """
    if record.status == KILLED and not isinstance(request, Kill):
        raise UsageError(f"topology '{record.name}' is being killed; it can only be killed again")
    if record.pending.HasField("update") and not _may_interrupt(record, request):
        raise UsageError(
            f"topology '{record.name}' is being updated to version {record.pending.update.number}; try again later"
        )
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    match request:
        case Kill(wait_s, asked_by):
            after.status = KILLED
            after.pending.Clear()
            after.pending.due_unix_s = now_s + _wait(record, wait_s)
            after.pending.asked_by = record.pending.asked_by if record.status == KILLED else asked_by
        case Activate() | Deactivate():
            _resume_as(after, ACTIVE if isinstance(request, Activate) else INACTIVE)
        case Rebalance():
            _rebalance(after, request, now_s)
        case Autoscale():
            _autoscale(after, request, now_s)
        case SetConf(wait_s=wait_s):
            return configured(record, request, now_s + _wait(record, wait_s))
        case Update() | Rollback():
            _change_version(after, request, now_s)
        case SetLogLevels() | SetSampling() | SetTracing():
            return observed(record, request, now_s)
    return after


def suspension(record: pb.TopologyRecord) -> str:
    """Return the reason why nimbus scales nothing of a topology in its present status; "" if it may."""
    if record.status == INACTIVE:
        return "its spouts are deactivated"
    if record.status == KILLED:
        return "it is being killed"
    if record.pending.HasField("update"):
        return "it is being updated"
    if record.status == REBALANCING:
        return "it is being rebalanced"
    return "its update is on trial" if record.trial_began_unix_s else ""


def has_numbers_of(record: pb.TopologyRecord, other: pb.TopologyRecord) -> bool:
    """True if two records have the same workers, executors, tasks and task ids."""
    return (record.workers, record.executors, record.tasks, record.first_task) == (
        other.workers, other.executors, other.tasks, other.first_task,
    )  # fmt: skip


def is_waiting(record: pb.TopologyRecord) -> bool:
    """True while a kill or rebalance waits for tuples in flight."""
    return record.status in {KILLED, REBALANCING}


def is_due(record: pb.TopologyRecord, now_s: float, *, is_drained: bool = False) -> bool:
    """True if the wait of a kill or rebalance is over: the topology is drained, or the time is up."""
    return is_waiting(record) and (is_drained or record.pending.due_unix_s <= now_s)


def next_due(record: pb.TopologyRecord) -> float | None:
    """Return the time when a kill or rebalance is due, in Unix seconds; None if none is waiting."""
    return record.pending.due_unix_s if is_waiting(record) else None


def rebalanced(record: pb.TopologyRecord, now_s: float = 0.0) -> pb.TopologyRecord:
    """Return the record after a rebalance: with the requested changes and the status to resume.

    Keys that waited for the restart of the workers are part of its configuration. ``now_s``: the beginning of an
    update's trial.
    """
    if record.pending.HasField("update"):
        after = updated(record, record.pending.update, 0.0 if record.pending.is_rollback else now_s)
        after.status = record.pending.resume
        return after
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    after.workers = record.pending.workers or record.workers
    restarted(after)  # the number of acker shards may follow that of the workers
    if record.pending.HasField("autoscaled"):
        after.autoscaled.CopyFrom(record.pending.autoscaled)
    after.ClearField("pending")
    after.status = record.pending.resume
    after.executors.update(record.pending.executors)
    if record.pending.tasks:
        after.tasks.update(record.pending.tasks)
        after.first_task = (record.first_task or 1) + sum(record.tasks.values())
    return after


def without_numbers(record: pb.TopologyRecord) -> pb.TopologyRecord:
    """Return a record whose waiting rebalance changes no numbers any more; keys that wait for it still do."""
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    for name in ("workers", "executors", "tasks", "autoscaled"):
        after.pending.ClearField(name)
    after.pending.keeps_placement = True
    return after


def failed_update(record: pb.TopologyRecord, now_s: float) -> pb.TopologyRecord:
    """Return the record of a topology that goes back to the version before an update, whose workers cannot start."""
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    _await_update(after, record.previous, now_s, is_rollback=True)
    return after


def message_timeout_s(record: pb.TopologyRecord) -> float:
    """Return the topology's message timeout."""
    conf = json.loads(record.conf_json) if record.conf_json else {}
    return float(conf.get("topology.message.timeout.secs") or 30)


def _resume_as(record: pb.TopologyRecord, status: pb.TopologyStatus) -> None:
    if record.status == REBALANCING:
        record.pending.resume = status
    else:
        record.status = status


def _rebalance(record: pb.TopologyRecord, request: Rebalance, now_s: float) -> None:
    executors, tasks = request.executors, request.tasks
    _check_rebalance(record, request.workers, executors, tasks)
    executors = _executors_after(record, executors, tasks)
    _await_rebalance(record, request.workers, executors, now_s + _wait(record, request.wait_s))
    record.pending.tasks.update({one: count for one, count in tasks.items() if count != record.tasks[one]})


def _autoscale(record: pb.TopologyRecord, request: Autoscale, now_s: float) -> None:
    seen, change = request.seen, request.change
    if suspension(record) or record.conf_json != seen.conf_json or not has_numbers_of(record, seen):
        raise UsageError(f"topology '{record.name}' has changed since its load was judged; nothing is scaled")
    executors = {change.component: change.executors} if change.component else {}
    _check_rebalance(record, change.workers, executors, {})
    _await_rebalance(record, change.workers, executors, now_s + _wait(record, None))
    record.pending.autoscaled.CopyFrom(change)
    record.pending.autoscaled.at_unix_s = now_s


def _await_rebalance(record: pb.TopologyRecord, workers: int, executors: Mapping[str, int], due_unix_s: float) -> None:
    """Let a record wait for a rebalance, which takes the place of one that waits already."""
    conf = dict(record.pending.conf)
    resume = record.pending.resume if record.status == REBALANCING else record.status
    record.status = REBALANCING
    record.pending.Clear()
    record.pending.conf.update(conf)
    record.pending.due_unix_s = due_unix_s
    record.pending.resume = resume
    record.pending.workers = workers
    record.pending.executors.update(executors)


def _await_update(
    record: pb.TopologyRecord, version: pb.TopologyVersion, due_unix_s: float, *, is_rollback: bool
) -> None:
    resume = record.pending.resume if record.status == REBALANCING else record.status
    record.status = REBALANCING
    record.pending.Clear()
    record.pending.due_unix_s = due_unix_s
    record.pending.resume = resume
    record.pending.update.CopyFrom(version)
    record.pending.is_rollback = is_rollback
    record.pending.is_taken_back = is_rollback and record.trial_began_unix_s > 0
    record.trial_began_unix_s = 0.0


def _change_version(record: pb.TopologyRecord, request: Update | Rollback, now_s: float) -> None:
    if record.pending.HasField("update"):  # it has not begun: a rollback withdraws it
        record.status = record.pending.resume
        record.ClearField("pending")
        return
    _check_update(record, request)
    version = request.version if isinstance(request, Update) else record.previous
    due_unix_s = now_s + _wait(record, request.wait_s)
    _await_update(record, version, due_unix_s, is_rollback=isinstance(request, Rollback))


def _may_interrupt(record: pb.TopologyRecord, request: Request) -> bool:
    """True if a request can be made while an update waits. A rollback withdraws the update."""
    if isinstance(request, Rollback):
        return not record.pending.is_rollback
    return not isinstance(request, Rebalance | SetConf | Update)


def _check_update(record: pb.TopologyRecord, request: Update | Rollback) -> None:
    if isinstance(request, Rollback) and not record.HasField("previous"):
        raise UsageError(f"topology '{record.name}' has no earlier version to go back to")
    if record.status == REBALANCING:
        raise UsageError(f"topology '{record.name}' is being rebalanced; try again when that is done")
    if isinstance(request, Rollback):
        return
    if record.trial_began_unix_s:
        raise UsageError(
            f"version {record.version} of topology '{record.name}' is still starting; update it when that is done, or "
            f"go back with 'tupletree rollback {record.name}'"
        )
    if version_of(record) != version_of(request.base):
        raise UsageError(f"topology '{record.name}' was changed while the update was uploaded; update it again")


def _wait(record: pb.TopologyRecord, wait_s: float | None) -> float:
    if wait_s is None:
        return message_timeout_s(record)
    if not math.isfinite(wait_s) or not 0 <= wait_s <= _MAX_WAIT_S:
        raise UsageError(f"the wait is a number of seconds from 0 to {_MAX_WAIT_S:.0f}, not {wait_s:g}")
    return wait_s


def _executors_after(
    record: pb.TopologyRecord, executors: Mapping[str, int], tasks: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the executors of the components that a rebalance changes.

    A component whose number of tasks changes keeps one executor for each task if it had that, and otherwise its number
    of executors, which is capped by the tasks.
    """
    after = {}
    for component, count in tasks.items():
        before = record.executors[component]
        after[component] = count if before == record.tasks[component] else min(before, count)
    return {**after, **executors}


def _check_rebalance(
    record: pb.TopologyRecord, workers: int, executors: Mapping[str, int], tasks: Mapping[str, int]
) -> None:
    if workers > MAX_WORKERS:
        raise UsageError(f"a topology can have at most {MAX_WORKERS} workers, not {workers}")
    for component in (*tasks, *executors):
        if component not in record.tasks:
            known = ", ".join(sorted(record.tasks))
            raise UsageError(f"topology '{record.name}' has no component '{component}'; it has {known}")
    for component, count in tasks.items():
        if not 1 <= count <= MAX_TASKS:
            raise UsageError(f"component '{component}' can have 1 to {MAX_TASKS} tasks, not {count}")
    for component, count in executors.items():
        has = tasks.get(component, record.tasks[component])
        if not 1 <= count <= has:
            raise UsageError(
                f"component '{component}' has {plural(has, 'task')}, and so at most {plural(has, 'executor')}, "
                f"not {count}; "
                f"--tasks {component}={count} changes the number of its tasks"
            )
    after = {**record.executors, **_executors_after(record, executors, tasks)}
    check_totals(record.name, after, {**record.tasks, **tasks})


def check_totals(name: str, executors: Mapping[str, int], tasks: Mapping[str, int]) -> None:
    """Check the numbers of all executors and tasks that a topology is to have, by component. Raises UsageError."""
    for numbers, limit, what in ((executors, MAX_EXECUTORS, "executors"), (tasks, MAX_TASKS, "tasks")):
        total = sum(numbers.values())
        if total > limit:
            raise UsageError(f"topology '{name}' would have {total} {what}; the limit is {limit}: ask for fewer")
