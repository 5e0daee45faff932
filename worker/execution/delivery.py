"""The way of batches into the inboxes of a worker: whole, if one executor drives all of their tasks, or divided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..core.batches import Batch, tasks_of
from .inbox import Divided, Inbox, RemoteBatch

Inboxes = Mapping[int, Inbox]
"""The inbox of the executor of each task."""


def put_local(inboxes: Inboxes, batch: Batch, tasks: Collection[int]) -> None:
    """Put a batch into the inbox of its tasks' executor, or its rows into the inboxes of several."""
    rows = batch.rows
    inbox = inboxes[next(iter(tasks))]
    if rows.targets is None or inbox.tasks.issuperset(tasks):
        inbox.put(batch, len(rows), rows.size)
    else:
        for task, part in rows.by_target():
            inboxes[task].put(Batch(batch.origin, task, part), len(part), part.size)


def put_remote(inboxes: Inboxes, batch: RemoteBatch, tasks: Collection[int], size: int) -> None:
    """Put a batch from another worker into the inbox of each executor that drives some of its tasks."""
    distinct = dict.fromkeys([inboxes[task] for task in tasks])  # in the order of the tasks: a simulation is repeatable
    if len(distinct) == 1:
        distinct.popitem()[0].put(batch, batch.message.rows, size)
        return
    shared = RemoteBatch(batch.message, batch.origin, Divided())
    for inbox in distinct:
        count = shared.count_of(inbox.tasks)
        inbox.put(shared, count, size * count // batch.message.rows)


def put_again(inboxes: Inboxes, item: Any, size: int) -> None:
    """Put an item of an executor that was divided into the inboxes of its parts."""
    if isinstance(item, Batch):
        targets = item.rows.targets
        put_local(inboxes, item, [item.target_task] if targets is None else frozenset(targets))
    elif isinstance(item, RemoteBatch):
        put_remote(inboxes, item, tasks_of(item.message), size)
    else:
        inboxes[item.task].put(item, 0)
