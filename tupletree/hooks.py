"""Hooks: programs that see a worker begin and end, the emits, executions, acks and fails of a task, or sampled tuples;
and those of nimbus, which see what users do with topologies.

    class Timing(TaskHook):
        def bolt_execute(self, info):
            self.seconds.observe(info.latency_s)

See docs/guides/hooks.md. A task without hooks runs as if there were none; a method that a hook does not override is
not called.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from tupletree.context import Share, TopologyContext
from tupletree.tuples import Tuple

__all__ = [
    "ActionNotifier",
    "BoltAckInfo",
    "BoltExecuteInfo",
    "BoltFailInfo",
    "EmitInfo",
    "EventLogger",
    "SampledTuple",
    "SpoutAckInfo",
    "SpoutFailInfo",
    "TaskHook",
    "TopologyAction",
    "WorkerContext",
    "WorkerHook",
]

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerContext:
    """A worker process as its hooks see it.

    Attributes:
        topology_id: the id that nimbus assigned to the topology.
        conf: the topology's configuration.
        components: the task ids of every component of the topology, ascending.
        local_tasks: the tasks that this worker runs, ascending.
    """

    topology_id: str
    conf: Mapping[str, Any]
    components: Mapping[str, Sequence[int]]
    local_tasks: Sequence[int]
    share: Share

    def shared(self, name: str, make: Callable[[], T], close: Callable[[T], object] | None = None) -> T:
        """Return the object of a name that the tasks of this worker share: TopologyContext.shared."""
        found: T = self.share(name, make, close)
        return found


class WorkerHook:
    """A program that runs once per worker process: add it with ``TopologyBuilder.add_worker_hook``.

    It is pickled with the topology, and each worker has a copy.
    """

    def start(self, conf: Mapping[str, Any], context: WorkerContext) -> None:
        """Called before any component is opened or prepared. An exception ends the worker, which is restarted."""

    def shutdown(self) -> None:
        """Called at an orderly shutdown of the worker, after all components were closed. Not guaranteed.

        The hook that was started last is called first. An exception is logged.
        """


class EmitInfo(NamedTuple):
    """An emitted tuple. ``values`` are those that are sent on: leave them as they are."""

    values: Sequence[Any]
    stream: str
    task_id: int
    target_tasks: tuple[int, ...]


class SpoutAckInfo(NamedTuple):
    """A message whose tuple tree is complete. ``latency_s``: since its emit; None if it is not known."""

    message_id: Any
    task_id: int
    latency_s: float | None


class SpoutFailInfo(NamedTuple):
    """A message that failed or timed out. ``latency_s``: since its emit; None if it is not known."""

    message_id: Any
    task_id: int
    latency_s: float | None


class BoltExecuteInfo(NamedTuple):
    """A tuple that a bolt has executed. ``latency_s``: of the call; in a batch, the time of all by their number."""

    tuple: Tuple
    task_id: int
    latency_s: float


class BoltAckInfo(NamedTuple):
    """A tuple that a bolt acked. ``latency_s``: since its execution began; None if it is not known."""

    tuple: Tuple
    task_id: int
    latency_s: float | None


class BoltFailInfo(NamedTuple):
    """A tuple that a bolt failed. ``latency_s``: since its execution began; None if it is not known."""

    tuple: Tuple
    task_id: int
    latency_s: float | None


class TaskHook:
    """A program that sees what one task does. All methods are called on the task's thread, and must be quick.

    An exception is reported as an error of the component (``tupletree errors``), and the task goes on. Add a hook in a
    component's ``setup`` with ``self.context.add_task_hook(hook)``, or name its class in ``topology.auto.task.hooks``.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called first, with the configuration and the context of the task."""

    def cleanup(self) -> None:
        """Called last, after the component was closed. Not guaranteed."""

    def emit(self, info: EmitInfo) -> None:
        """Called for each emitted tuple, when its target tasks are chosen."""

    def spout_ack(self, info: SpoutAckInfo) -> None:
        """Called after the spout's ``ack``."""

    def spout_fail(self, info: SpoutFailInfo) -> None:
        """Called after the spout's ``fail``."""

    def bolt_execute(self, info: BoltExecuteInfo) -> None:
        """Called after each execution that returned, or that failed its tuple. Ticks are not shown."""

    def bolt_ack(self, info: BoltAckInfo) -> None:
        """Called after a tuple was acked, also by the framework."""

    def bolt_fail(self, info: BoltFailInfo) -> None:
        """Called after a tuple was failed, also by the framework."""


class SampledTuple(NamedTuple):
    """An emitted tuple that ``tupletree debug`` sampled.

    ``values`` are those that are sent on: leave them as they are. For a direct stream, ``target_tasks`` is empty.
    ``message_id``: with which the spout emitted the tuple. None in a bolt, and if the spout gave no id.
    """

    at_unix_s: float
    component_id: str
    task_id: int
    stream: str
    target_tasks: tuple[int, ...]
    values: Sequence[Any]
    message_id: Any = None


class EventLogger:
    """A program that gets the tuples that ``tupletree debug`` samples in a worker, and writes them where it likes.

    Name its class in ``topology.event.logger.register``; each worker has an object of it. All methods are called on a
    thread of their own. The first exception is an error of the tuple's component (``tupletree errors``), further ones
    are not reported. The worker goes on.
    """

    def prepare(self, conf: Mapping[str, Any], context: WorkerContext) -> None:
        """Called first, when tuples of this worker are sampled for the first time."""

    def log(self, sampled: SampledTuple) -> None:
        """Called for each sampled tuple."""
        raise NotImplementedError

    def close(self) -> None:
        """Called last, at an orderly shutdown of the worker. Not guaranteed."""


class TopologyAction(NamedTuple):
    """An action of a user on a topology, which the leader has accepted.

    Attributes:
        action: "submit", "update", "rollback", "activate", "deactivate", "rebalance", "set_conf" or "kill"; or
            "autoscale", which nimbus asks for itself.
        user: who asked; "" if tokens are disabled.
        conf: the configuration of the topology after the action, with passwords masked.
        tasks: the number of tasks by component, after the action; a rebalance and an update change it later.
    """

    at_unix_s: float
    action: str
    topology_name: str
    topology_id: str
    owner: str
    user: str
    conf: Mapping[str, Any]
    tasks: Mapping[str, int]


class ActionNotifier:
    """A program in nimbus that is told what users do with topologies, as for an inventory or a chat.

    Name its class in ``nimbus.topology.action.notifiers``; each nimbus has an object of it, and the leading one tells
    it. Each object has a thread, on which its methods are called. An exception is in nimbus's log, and changes nothing
    else.
    """

    def prepare(self, conf: Mapping[str, Any]) -> None:
        """Called first, at the start of nimbus, with the configuration of nimbus. If it raises, nothing else is."""

    def notify(self, action: TopologyAction) -> None:
        """Called after each action, in the order of the actions."""
        raise NotImplementedError

    def close(self) -> None:
        """Called last, at an orderly end of nimbus. Not guaranteed."""
