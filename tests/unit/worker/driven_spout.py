"""A spout executor driven by hand, and its pending trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hand_driven import HandDriven
from local_components import Do, Log

from tupletree import Spout, TopologyBuilder
from tupletree.worker.core.spout_task import SpoutTask, message_of
from tupletree.worker.execution.spout_executor import SpoutExecutor


class Numbers(Spout):
    """Emits 0, 1, 2, … with the number as message id, and logs every call but next_tuple."""

    outputs = ["n"]

    def __init__(self, log: Log, count: float = math.inf, is_tracked: bool = True) -> None:
        self.log = log
        self.left = count
        self.next = 0
        self.is_tracked = is_tracked

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector
        self.log.append("open")

    def activate(self) -> None:
        self.log.append("activate")

    def deactivate(self) -> None:
        self.log.append("deactivate")

    def close(self) -> None:
        self.log.append("close")

    def next_tuple(self) -> None:
        if self.left > 0:
            self.left -= 1
            self.collector.emit([self.next], self.next if self.is_tracked else None)
            self.next += 1

    def ack(self, msg_id: Any) -> None:
        self.log.append(("ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        self.log.append(("fail", msg_id))


def driven(
    spout: Spout, conf: dict[str, Any] | None = None, tasks: int = 1, is_tracked: bool = True, **more: Any
) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout).set_num_tasks(tasks)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    return HandDriven(builder.create_topology(), conf, is_tracked=is_tracked, **more)


def task_of(hand: HandDriven, index: int = 0) -> SpoutTask:
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    task = executor.tasks[index]
    assert isinstance(task, SpoutTask)
    return task


def roots_by_message(hand: HandDriven, index: int = 0) -> dict[Any, int]:
    pending = task_of(hand, index).pending
    return {message_of(pending.get(root)): root for root in pending}
