"""Simulated workers: lives of a slot, each with the real executors, tasks and participants of a worker.

A worker's run loops are replaced by single steps: an executor is stepped when something has arrived or is due, then its
output is handed over, or sometimes only full batches. A slot's worker may have predecessors that are cut off and go on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.errors import TaskFailedError, named
from tupletree.parallelism import ExecutorTasks
from tupletree.testing.simulation.network import Acker, Peers
from tupletree.testing.simulation.timeline import Timeline
from tupletree.tuples import Origin
from tupletree.v1 import topology_pb2
from tupletree.worker.builder import build_executors, origins
from tupletree.worker.control_messages import Control
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Batch, EncodedBatch, Rows, bytes_of, encode, sources_of, tasks_of
from tupletree.worker.core.task import Environment, Observer, Task
from tupletree.worker.execution.delivery import put_local, put_remote
from tupletree.worker.execution.executor import Executor
from tupletree.worker.execution.inbox import Gate, RemoteBatch
from tupletree.worker.execution.spout_executor import SpoutExecutor
from tupletree.worker.plan import Plan

STEP_S = 0.001


class Killed(BaseException):
    """The process that runs this step is dead: nothing of the step goes on."""


def raised(failure: TaskFailedError) -> str:
    """Return which component raised what."""
    return f"component {failure.component_id!r} raised {named(failure.__cause__ or failure)}"


class Slot:
    """A place for a worker: the executors that run there, and the worker that runs them now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.executors: list[ExecutorTasks] = []
        self.current: Worker | None = None


class Deployment(Timeline):
    """A running topology as its workers see it.

    ``running``: the workers in whose steps the current event is, the innermost last.
    """

    topology_id: str
    spec: topology_pb2.TopologySpec
    conf: Mapping[str, Any]
    tasks: Mapping[str, Sequence[int]]
    slot_of: Mapping[int, Slot]
    acker: Acker
    running: list[Any]
    origins: Mapping[tuple[int, str], Origin] | None = None
    observer: Observer | None = None

    def dress(self, worker: Any, task: Task) -> None:
        """Give a new task what is simulated around it."""

    def died(self, worker: Any, why: str) -> None:
        """Record that a worker has died."""
        raise NotImplementedError

    def failed(self, worker: Any, failure: TaskFailedError) -> None:
        """End a worker in which a component raised."""
        worker.kill(raised(failure))

    def reported(self, worker: Any, component: str, task: int, error: BaseException) -> None:
        """Record an error that a task reported."""
        self.tell(f"{worker}: {component} {task} reports {error}")


class Worker:
    """One life of the worker of a slot."""

    def __init__(self, world: Deployment, slot: Slot, number: int) -> None:
        self.world = world
        self.slot = slot
        self.number = number
        self.alive = True
        self.cut_off = False
        self.is_busy = False
        self.gate = Gate(self._gate_changed)
        environment = Environment(
            clock=lambda: world.now_s,
            getrandbits=world.rng.getrandbits,
            report_error=functools.partial(world.reported, self),
            is_tracked=world.conf["topology.acker.executors"] != 0,
            log_emit=lambda component, stream, values: None,
            ids_at_once=8,
            ids_are_seeded=False,
        )
        local = frozenset(task for first, last in slot.executors for task in range(first, last + 1))
        plan = Plan(
            world.topology_id,
            world.spec,
            world.conf,
            world.tasks,
            local,
            environment,
            number,
            world.observer,
            places={task: place.number for task, place in world.slot_of.items()},
        )
        self.origins = world.origins or origins(plan)
        self.executors = build_executors(plan, slot.executors, self.gate, self._deliver)
        self.by_task = {task.task_id: executor for executor in self.executors for task in executor.tasks}
        self._inboxes = {task: executor.inbox for task, executor in self.by_task.items()}
        self.tasks = {task.task_id: task for executor in self.executors for task in executor.tasks}
        self.peers = Peers(world, self)
        self.updates = AckUpdates()
        self._scheduled: dict[Executor, float] = {}  # when each is stepped next
        self._is_posting = False
        self._slot_of = world.slot_of  # as it is when the worker is made
        for task in self.tasks.values():
            world.dress(self, task)
        for executor in self.executors:
            executor.inbox.wake = functools.partial(self.wake, executor)
        self._share_updates()

    def __repr__(self) -> str:
        return f"worker {self.slot.number}/{self.number}"

    def start(self) -> None:
        """Open the components and activate the spouts."""
        self.carry_out(self._open)
        for executor in self.executors:
            self.wake(executor)

    def _open(self) -> None:
        for executor in self.executors:
            executor.open()
            if isinstance(executor, SpoutExecutor):
                executor.wants_active = True

    # Steps

    def wake(self, executor: Executor, delay_s: float | None = None) -> None:
        """Have an executor stepped soon, unless it will be stepped earlier anyway."""
        if not self.alive:
            return
        world = self.world
        at_s = world.now_s + (world.rng.uniform(0, STEP_S) if delay_s is None else delay_s)
        if at_s < self._scheduled.get(executor, math.inf):
            self._scheduled[executor] = at_s
            world.at(at_s - world.now_s, functools.partial(self._step, executor, at_s))

    def _step(self, executor: Executor, at_s: float) -> None:
        if not self.alive or self._scheduled.get(executor) != at_s:
            return
        del self._scheduled[executor]
        if self.is_busy:
            self.wake(executor)
            return
        worked = self.carry_out(functools.partial(self._turn, executor))
        if not self.alive:
            return
        if worked or executor.has_work or executor.can_flush or (executor.has_buffered and not executor.is_held):
            self.wake(executor)
        else:
            due_s = executor.due_s()
            if due_s != math.inf:
                self.wake(executor, max(due_s - self.world.now_s, STEP_S))

    def _turn(self, executor: Executor) -> bool:
        worked = executor.step()
        if worked and not executor.is_blocking and self.world.rng.random() < 0.3:
            executor.flush_full()
        else:
            executor.flush()
        return worked

    def carry_out(self, what: Callable[[], Any]) -> Any:
        """Do something in this worker's own process; the worker may die of it."""
        self.is_busy = True
        self.world.running.append(self)
        try:
            return what()
        except Killed:
            pass
        except TaskFailedError as failure:
            self.world.failed(self, failure)
        finally:
            self.world.running.pop()
            self.is_busy = False
            if self.alive:
                self._post_soon()
        return False

    def kill(self, why: str) -> None:
        """End the worker as kill -9 does: its memory is lost, with all that it has not sent."""
        if self.alive:
            self.alive = False
            self.world.died(self, why)

    def tell(self, control: Control, task: int | None = None) -> None:
        """Pass a control message to one of its tasks, or to all that begin trees."""
        if self.alive:
            for executor in self.executors if task is None else [self.by_task[task]]:
                if executor.tree_tasks:
                    executor.inbox.put_news(control)

    # Batches

    def _deliver(self, origin: Origin, target: int, rows: Rows, tasks: frozenset[int]) -> None:
        world = self.world
        place = self._slot_of[next(iter(tasks))]
        if place is self.slot:
            put_local(self._inboxes, Batch(origin, target, rows), tasks)
            return
        if world.is_faulty and world.rng.random() < world.faults.torn:
            self.kill("while it hands over")
            raise Killed
        self.peers.send(place, encode(origin, target, rows))

    def receive(self, batch: EncodedBatch) -> None:
        """Put a batch from another worker into the inboxes of its tasks."""
        origin = self.origins[min(sources_of(batch)), batch.stream]
        put_remote(self._inboxes, RemoteBatch(batch, origin), tasks_of(batch), bytes_of(batch))

    def _gate_changed(self) -> None:
        for executor in getattr(self, "executors", ()):
            self.wake(executor)

    # Updates for the acker

    def _share_updates(self) -> None:
        for task in self.tasks.values():
            task.use(self.updates)

    def _post_soon(self) -> None:
        if self.updates and not self._is_posting:
            self._is_posting = True
            self.world.at(self.world.rng.uniform(0, 0.01), self._post)

    def _post(self) -> None:
        self._is_posting = False
        if self.alive and self.is_busy:
            self._post_soon()
        elif self.alive and self.updates:
            updates, self.updates = self.updates, AckUpdates()
            self._share_updates()
            self.world.acker.post(self, updates)

    def fail(self, roots: set[int]) -> None:
        """Fail trees whose tuples may be lost."""
        if self.alive and roots:
            self.updates.fails.update(roots)
            self._post_soon()
