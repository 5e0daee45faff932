"""What a task has done, as the message that nimbus gathers."""

from __future__ import annotations

from collections.abc import Mapping

from tupletree.v1 import nimbus_pb2

from .inbox import Inbox
from .outbox import OutStream
from .spout_task import SpoutTask
from .tasks import Task


def task_stats(task: Task, inbox: Inbox, tasks_of_executor: int) -> nimbus_pb2.TaskStats:
    """The counters of a task. Tasks of one executor share an inbox: each is told its share of what waits there."""
    counters = task.counters
    message = nimbus_pb2.TaskStats(
        task_id=task.task_id,
        component_id=task.component_id,
        executed=counters.executed,
        acked=counters.acked,
        failed=counters.failed,
        timeouts=counters.timeouts,
        execute_s=counters.execute_s,
        process_s_sum=counters.process_s_sum,
        process_samples=counters.process_samples,
        complete_s_sum=counters.complete_s_sum,
        complete_samples=counters.complete_samples,
        queued=max(0, inbox.rows) // tasks_of_executor,
        congested=inbox.is_congested,
        pending=len(task.pending) if isinstance(task, SpoutTask) else 0,
    )
    for name, (emitted, transferred) in stream_counts(task.streams).items():
        message.streams.add(stream=name, emitted=emitted, transferred=transferred)
    return message


def stream_counts(streams: Mapping[str, OutStream]) -> dict[str, tuple[int, int]]:
    """Emitted and transferred tuples of each stream.

    Where each tuple goes to one task, what still lies in a buffer is emitted but not yet transferred.
    """
    counts = {}
    for name, stream in streams.items():
        waiting = sum(map(len, stream.buffers.values()))
        emitted = stream.transferred + waiting if stream.choose_one is not None else stream.emitted
        counts[name] = (emitted, stream.transferred)
    return counts
