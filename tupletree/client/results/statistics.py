"""Statistics of a topology's components and workers, and the whole description of a topology. Pure.

Counters count since the workers started. Latencies are sums over sampled tuples: divide by the number of samples, or
subtract two descriptions for the time between them.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.client.results.topology import (
    Assignment,
    ComponentError,
    ComponentKind,
    TaskStatus,
    TopologySpec,
    TopologySummary,
)
from tupletree.v1 import nimbus_pb2


@dataclass(frozen=True, slots=True)
class StreamStats(Result):
    """Counters of one output stream.

    Attributes:
        emitted: the emitted tuples.
        transferred: the tuples sent to tasks; a tuple for two tasks counts twice.
        acked: the trees that a spout began on this stream and that completed.
        failed: the trees that a spout began on this stream and that failed.
        complete_s_sum: the seconds from emit to ack, summed over ``complete_samples`` trees.
    """

    stream: str
    emitted: int
    transferred: int
    acked: int
    failed: int
    complete_s_sum: float
    complete_samples: int
    raw: nimbus_pb2.StreamStats = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class InputStats(Result):
    """Counters of the tuples that a bolt received from one stream of a component.

    Attributes:
        execute_s: the seconds spent in ``execute``.
        process_s_sum: the seconds from ``execute`` to ack, summed over ``process_samples`` tuples.
    """

    source_component: str
    stream: str
    executed: int
    acked: int
    failed: int
    execute_s: float
    process_s_sum: float
    process_samples: int
    raw: nimbus_pb2.InputStats = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TaskStats(Result):
    """Counters of a task, or of all tasks of a component.

    Attributes:
        task_id: 0: of a whole component.
        execute_s: the seconds spent in ``execute`` or ``next_tuple``.
        process_s_sum: the seconds from ``execute`` to ack, summed over ``process_samples`` tuples.
        complete_s_sum: the seconds from a spout's emit to the ack, summed over ``complete_samples`` trees.
        queued: the tuples that wait now.
        pending: the trees of a spout that are pending now.
        congested: whether the senders hold tuples back for the task.
        timeouts: the part of ``failed`` that timed out.
        inputs: by the stream that a bolt received.
        process_buckets: the sampled latencies by bucket, up to the last bucket that counts any.
        complete_buckets: likewise, of spouts.
        unheard: the part of ``failed`` that a spout without ``fail`` dropped.
        holds_tuples: whether the bolt declares that it acks long after ``execute``.
        call_s: the seconds since the present call of user code began.
        found_blocking: whether the executor has a thread of its own because it was found blocking.
    """

    task_id: int
    component_id: str
    streams: tuple[StreamStats, ...]
    executed: int
    acked: int
    failed: int
    execute_s: float
    process_s_sum: float
    process_samples: int
    complete_s_sum: float
    complete_samples: int
    queued: int
    pending: int
    congested: bool
    timeouts: int
    inputs: tuple[InputStats, ...]
    process_buckets: tuple[int, ...]
    complete_buckets: tuple[int, ...]
    unheard: int
    holds_tuples: bool
    call_s: float
    found_blocking: bool
    raw: nimbus_pb2.TaskStats = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ComponentStats(Result):
    """Statistics of one component, over all its tasks.

    Attributes:
        total: the sums over the tasks.
        capacity: the share of the last ten minutes that the busiest executor spent executing; 1.0: saturated.
        emitted_per_s: tuples per second, over the last few seconds.
        executed_per_s: likewise.
        acked_per_s: likewise; of spouts trees per second.
        statuses: of the tasks that report a status, ascending by task.
        remark: a sentence on what is wrong with the component; "": nothing is known.
    """

    component_id: str
    kind: ComponentKind
    executors: int
    tasks: int
    total: TaskStats
    capacity: float
    emitted_per_s: float
    executed_per_s: float
    acked_per_s: float
    statuses: tuple[TaskStatus, ...]
    remark: str
    raw: nimbus_pb2.ComponentStats = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WorkerSummary(Result):
    """One worker of a topology, as reported last. Without a report, only the slot is known.

    Attributes:
        port: the port of the slot.
        pid: the process id; 0: not reported.
        ready: whether the worker processes tuples.
        age_s: the time since the last report.
        tasks: the ids of the assigned tasks.
        uptime_s: the time since the process started.
        worker_id: a new id for every process.
    """

    host: str
    port: int
    pid: int
    http_port: int
    ready: bool
    age_s: float
    tasks: tuple[int, ...]
    uptime_s: float
    worker_id: str
    raw: nimbus_pb2.WorkerSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopologyDescription(Result):
    """Everything that the leader knows about one topology.

    Attributes:
        components: the statistics of each component.
        errors: the stored errors, newest first.
        spec: the declared components, without their objects.
        unscheduled: a sentence on why the topology does not run, or not completely; "": it runs.
    """

    summary: TopologySummary
    assignment: Assignment
    components: tuple[ComponentStats, ...]
    workers: tuple[WorkerSummary, ...]
    errors: tuple[ComponentError, ...]
    spec: TopologySpec
    unscheduled: str
    raw: nimbus_pb2.DescribeTopologyReply = field(repr=False, compare=False)
