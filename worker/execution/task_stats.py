"""Statistics of a task, as the message sent to nimbus."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any

from tupletree.v1 import nimbus_pb2

from ..core.bolt_task import BoltTask
from ..core.counts import data_streams
from ..core.output_streams import OutStream
from ..core.spout_task import SpoutTask
from ..core.task import Task
from .executor import Executor


def task_stats(task: Task, executor: Executor) -> nimbus_pb2.TaskStats:
    """Return the counters of a task. Tasks of one executor share an inbox; each reports an equal share of its queue.

    The latency of a sampled tuple counts in the sums of its task and of its stream, and in the buckets of its task. A
    bolt that acks explicitly has at most one sampled tuple at a time, so tuples that it holds for long are
    underrepresented.
    """
    counters = task.counters
    message = nimbus_pb2.TaskStats(
        task_id=task.task_id,
        component_id=task.component_id,
        executed=counters.executed,
        acked=counters.acked,
        failed=counters.failed,
        timeouts=counters.timeouts,
        unheard=counters.unheard,
        execute_s=counters.execute_s,
        process_s_sum=counters.process_s_sum,
        process_samples=counters.process_samples,
        complete_s_sum=counters.complete_s_sum,
        complete_samples=counters.complete_samples,
        process_buckets=counters.process_counts,
        complete_buckets=counters.complete_counts,
        queued=max(0, executor.inbox.rows) // len(executor.tasks),
        congested=executor.inbox.is_congested,
        found_blocking=executor.is_found_blocking,
        holds_tuples=isinstance(task, BoltTask) and (task.bolt.holds_tuples or has_ticks(task.context.conf)),
        pending=len(task.pending) if isinstance(task, SpoutTask) else 0,
    )
    for name, (emitted, transferred) in stream_counts(task.streams).items():
        message.streams.add(stream=name, emitted=emitted, transferred=transferred)
    if isinstance(task, SpoutTask):
        _add_trees(message, task)
    else:
        _add_inputs(message, task)
    return message


def has_ticks(conf: Mapping[str, Any]) -> bool:
    """True if a task receives ticks. Such a task may wait for a tick before it acks."""
    return bool(conf["topology.tick.tuple.freq.secs"])


def stream_counts(streams: Mapping[str, OutStream]) -> dict[str, tuple[int, int]]:
    """Return the emitted and transferred tuples of each stream."""
    return {
        name: (stream.appended if stream.choose_one is not None else stream.emitted, stream.transferred)
        for name, stream in streams.items()
    }


def _add_trees(message: nimbus_pb2.TaskStats, task: SpoutTask) -> None:
    """Add the outcome of trees by stream."""
    for stream in message.streams:
        counts = task.trees.get(stream.stream)
        if counts is not None:
            stream.acked, stream.failed = counts.acked, counts.failed
            stream.complete_s_sum, stream.complete_samples = counts.complete_s_sum, counts.complete_samples


def _add_inputs(message: nimbus_pb2.TaskStats, task: Task) -> None:
    """Add the outcome of tuples by input stream. With a single input stream, the task's totals are used."""
    if task.inputs is not None:
        counted = list(task.inputs.by_stream.items())  # copied at once: the task's thread may add streams
    else:
        counted = [(source, task.counters) for source in data_streams(task.context.sources)]
    for (component, stream), counts in counted:
        message.inputs.add(
            source_component=component,
            stream=stream,
            executed=counts.executed,
            acked=counts.acked,
            failed=counts.failed,
            execute_s=counts.execute_s,
            process_s_sum=counts.process_s_sum,
            process_samples=counts.process_samples,
        )
