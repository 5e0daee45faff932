"""A topology as a client sees it: its record, its components, where it runs, and its statistics. Pure.

Times are in seconds: ``…_unix_s`` since 1970 UTC, ``…_s`` a duration or an age.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tupletree._wire.statuses import decode_status
from tupletree.client.results.autoscale import AutoscaleChange
from tupletree.client.results.conversion import Result
from tupletree.client.results.needs import ComponentNeeds
from tupletree.v1 import nimbus_pb2, topology_pb2


class TopologyStatus(StrEnum):
    """The status of a topology. ``UNKNOWN``: a status of a newer version."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    REBALANCING = "rebalancing"
    KILLED = "killed"
    UNKNOWN = "unknown"


class ComponentKind(StrEnum):
    """The kind of a component. ``UNKNOWN``: nimbus does not know the component's specification."""

    SPOUT = "spout"
    BOLT = "bolt"
    UNKNOWN = "unknown"


class GroupingKind(StrEnum):
    """The grouping of a subscription. ``UNKNOWN``: a grouping of a newer version."""

    SHUFFLE = "shuffle"
    FIELDS = "fields"
    ALL = "all"
    GLOBAL = "global"
    NONE = "none"
    DIRECT = "direct"
    LOCAL_OR_SHUFFLE = "local_or_shuffle"
    PARTIAL_KEY = "partial_key"
    CUSTOM = "custom"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogLevel(Result):
    """The level of a logger in a topology's workers, as returned by a client or made for ``set_log_levels``.

    Attributes:
        level: DEBUG, INFO, and so on.
        reset_level: the level when the time is over; "": the level before the change.
        until_unix_s: the end of the change; 0: permanent.
        raw: None if the caller made the object.
    """

    level: str
    reset_level: str = ""
    until_unix_s: float = 0.0
    raw: topology_pb2.LogLevel | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopologyVersion(Result):
    """The code of a topology and what was submitted with it: what an update replaces, and a rollback puts back.

    Attributes:
        number: 0: the submission; each update has the next number.
        workers: the wanted worker processes, after rebalances; so are ``executors`` and ``tasks``.
        submitted_conf: as in TopologyRecord; so are ``conf_json``, ``live_keys`` and ``needs``.
    """

    number: int
    bundle_sha256: str
    bundle_bytes: int
    conf_json: str = field(repr=False)
    submitted_conf: Mapping[str, str] = field(hash=False)
    live_keys: tuple[str, ...]
    workers: int
    executors: Mapping[str, int] = field(hash=False)
    tasks: Mapping[str, int] = field(hash=False)
    needs: Mapping[str, ComponentNeeds] = field(hash=False)
    raw: topology_pb2.TopologyVersion = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PendingAction(Result):
    """A kill, a rebalance or an update that waits for tuples in flight.

    Attributes:
        due_unix_s: the end of the wait, at the latest.
        resume: the status after a rebalance.
        workers: the number of workers after a rebalance; 0: unchanged.
        executors: the executors per component that a rebalance changes.
        tasks: the tasks per component that a rebalance changes.
        unfinished: trees and tuples in flight, as the workers reported last.
        conf: the keys that change with the restart of the workers: the new value as JSON, or "" for a key that is not
            set any more.
        keeps_placement: True if the workers are restarted where they are, because only the configuration changes.
        update: what the topology goes on with, or None.
        is_rollback: True if ``update`` ran before.
        is_taken_back: True if it runs again because the workers of the present version cannot start.
        asked_by: the user who asked for a kill; "": tokens are disabled.
        autoscaled: the change, if the leader itself has decided on it by ``topology.autoscale``, or None.
    """

    due_unix_s: float
    resume: TopologyStatus
    workers: int
    executors: Mapping[str, int] = field(hash=False)
    tasks: Mapping[str, int] = field(hash=False)
    unfinished: int
    conf: Mapping[str, str] = field(hash=False)
    keeps_placement: bool
    update: TopologyVersion | None
    is_rollback: bool
    is_taken_back: bool
    asked_by: str
    autoscaled: AutoscaleChange | None
    raw: topology_pb2.PendingAction = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopologyRecord(Result):
    """One submitted topology, as nimbus stores it.

    Attributes:
        id: the topology id, never used again.
        name: unique among the topologies that exist.
        conf_json: the topology's configuration as a JSON object; ``conf`` has it decoded.
        bundle_sha256: the hexadecimal digest of the bundle.
        bundle_bytes: the size of the bundle.
        workers: the wanted worker processes.
        executors: the executors of each component, after rebalances.
        tasks: the tasks of each component, after rebalances.
        needs: what each executor needs of the resources, by component.
        first_task: the lowest task id; 0: the numbers of tasks are those of the submission, and it is 1.
        pending: the kill or rebalance under way, or None.
        acker_shards: 0: tuples are not tracked.
        log_levels: by logger; "" is the root.
        sampled_percent: the percentage of emitted tuples that workers log, by component; "": every component.
        sampled_until_unix_s: the end of sampling, by component; absent or 0: permanent.
        traced_one_in: one in this number of trees is traced; 0: none.
        traced_until_unix_s: the end of tracing; 0: permanent.
        submitted_conf: of the keys of the configuration that were changed since: the value at submission as JSON, or ""
            for a key that was not set.
        live_keys: of these keys, those that running workers have adopted without a restart.
        version: the number of the update that runs; 0: the submission.
        previous: what ran before the last update or rollback, to which ``rollback`` goes back; None before the first.
        trial_began_unix_s: the time since which the workers of an update are being started; 0: all have started.
        earlier: what was ``previous`` before the update whose workers are being started, or None.
        last_version: the highest number that an update has had.
        autoscaled: the last change by ``topology.autoscale`` that was carried out, or None.
    """

    id: str
    name: str
    status: TopologyStatus
    conf_json: str = field(repr=False)
    bundle_sha256: str
    bundle_bytes: int
    submitted_unix_s: float
    owner: str
    workers: int
    executors: Mapping[str, int] = field(hash=False)
    tasks: Mapping[str, int] = field(hash=False)
    pending: PendingAction | None
    acker_shards: int
    log_levels: Mapping[str, LogLevel] = field(hash=False)
    sampled_percent: Mapping[str, float] = field(hash=False)
    traced_one_in: int
    sampled_until_unix_s: Mapping[str, float] = field(hash=False)
    traced_until_unix_s: float
    submitted_conf: Mapping[str, str] = field(hash=False)
    live_keys: tuple[str, ...]
    first_task: int
    version: int
    previous: TopologyVersion | None
    trial_began_unix_s: float
    earlier: TopologyVersion | None
    last_version: int
    needs: Mapping[str, ComponentNeeds] = field(hash=False)
    autoscaled: AutoscaleChange | None
    raw: topology_pb2.TopologyRecord = field(repr=False, compare=False)

    @property
    def conf(self) -> dict[str, Any]:
        """The topology's configuration, decoded at each access."""
        return dict(json.loads(self.conf_json or "{}"))


@dataclass(frozen=True, slots=True)
class TopologySummary(Result):
    """One topology in the list of topologies.

    Attributes:
        workers_used: the workers that are assigned to slots.
        workers_ready: the workers that have started and process tuples.
        uptime_s: the time since the submission.
    """

    record: TopologyRecord
    workers_used: int
    executors_total: int
    tasks_total: int
    workers_ready: int
    uptime_s: float
    raw: nimbus_pb2.TopologySummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class StreamSpec(Result):
    """A declared output stream and its fields in order. ``direct``: the emitter chooses the receiving task."""

    id: str
    fields: tuple[str, ...]
    direct: bool
    raw: topology_pb2.StreamSpec = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class InputSpec(Result):
    """A bolt's subscription to a stream of the component ``source``. ``fields``: of FIELDS and PARTIAL_KEY only."""

    source: str
    stream: str
    grouping: GroupingKind
    fields: tuple[str, ...]
    raw: topology_pb2.InputSpec = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ComponentSpec(Result):
    """A spout or bolt as it was declared, without its object.

    Attributes:
        parallelism: the executors at submission.
        tasks: the number of tasks at submission.
        conf_json: the component's own configuration as a JSON object; ``conf`` has it decoded.
        keeps_state: true for a bolt with a state, and for a spout with a position.
        fixed_tasks: true if these cannot be divided among another number of tasks.
        checks_keys: true if nothing but a check of several tasks shows whether its keys are those of the grouping.
        state_form: of a component that stores anything, what decides how that is read.
        state_version: of a bolt with a state, the version of its values; otherwise 0.
        is_blocking: true if its class declares ``blocking``.
    """

    id: str
    kind: ComponentKind
    parallelism: int
    tasks: int
    conf_json: str = field(repr=False)
    outputs: tuple[StreamSpec, ...]
    inputs: tuple[InputSpec, ...]
    keeps_state: bool
    fixed_tasks: bool
    checks_keys: bool
    state_form: str
    state_version: int
    is_blocking: bool
    raw: topology_pb2.ComponentSpec = field(repr=False, compare=False)

    @property
    def conf(self) -> dict[str, Any]:
        """The component's configuration, decoded at each access."""
        return dict(json.loads(self.conf_json or "{}"))


@dataclass(frozen=True, slots=True)
class TopologySpec(Result):
    """The components of a topology, ascending by id. Task ids are assigned in this order, from 1."""

    components: tuple[ComponentSpec, ...]
    raw: topology_pb2.TopologySpec = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ExecutorRange(Result):
    """The task ids of one executor, from ``first_task`` to ``last_task`` inclusive."""

    first_task: int
    last_task: int
    raw: topology_pb2.ExecutorRange = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WorkerAssignment(Result):
    """The slot of one worker, and its executors. ``memory_mb``: what the resource scheduler gave it; 0: no limit."""

    supervisor_id: str
    host: str
    port: int
    executors: tuple[ExecutorRange, ...]
    memory_mb: float
    raw: topology_pb2.WorkerAssignment = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ShardAssignment(Result):
    """The acker that holds one shard of a topology's trees.

    Attributes:
        acker_id: "": no acker is available, and spouts wait.
        address: host:port.
        draining_acker_id: the acker that still finishes the trees it began; "": none.
        draining_address: host:port of the draining acker.
    """

    shard: int
    acker_id: str
    address: str
    draining_acker_id: str
    draining_address: str
    raw: topology_pb2.ShardAssignment = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Assignment(Result):
    """The workers and acker shards of a topology; without workers if the topology is not scheduled.

    Attributes:
        epoch: the leader's epoch when it wrote the assignment.
        version: rises by one with every change.
        shard_version: the version that last changed ``shards``.
    """

    topology_id: str
    epoch: int
    version: int
    workers: tuple[WorkerAssignment, ...]
    shards: tuple[ShardAssignment, ...]
    shard_version: int
    raw: topology_pb2.Assignment = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ComponentError(Result):
    """An error that a component reported or that ended its worker.

    Attributes:
        at_unix_s: the time of the newest occurrence.
        message: one line.
        count: the occurrences at this host and port since ``first_unix_s``; 0: one.
        first_unix_s: the time of the first occurrence; 0: ``at_unix_s``.
        ended_worker: True if a worker ended because of it, or could not be started.
        first_task: likewise, the lowest task id of the version of the topology that the worker was to run.
    """

    component_id: str
    task_id: int
    host: str
    port: int
    at_unix_s: float
    message: str
    traceback: str = field(repr=False)
    count: int
    first_unix_s: float
    ended_worker: bool
    first_task: int
    raw: topology_pb2.ComponentError = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TaskStatus(Result):
    """The newest status that a task reports with ``context.register_status``.

    Attributes:
        status_json: a JSON object, written by user code; ``status`` has it decoded.
        age_s: the time since the report.
    """

    task_id: int
    status_json: str
    age_s: float
    raw: nimbus_pb2.TaskStatus = field(repr=False, compare=False)

    @property
    def status(self) -> dict[str, Any] | None:
        """The status, decoded at each access; None if ``status_json`` is not a small JSON object."""
        return decode_status(self.status_json)
