"""Workers of the simulated stateful topology: lives of a slot, each with real executors, tasks and participants.

What a worker's run loops do is done here one step at a time: executors are stepped when something has arrived or is
due, what was emitted is handed over, and sometimes only what is full. Beside the worker that everybody will soon send
to there may be older ones of its slot that are cut off, and go on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkpoint_network import Peers
from checkpoint_nouns import ID, Killed
from checkpoint_stores import open_state
from transaction_stores import SimulatedStore

from tupletree._checkpoints.record import newest_round
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._checkpoints.steps import Step
from tupletree.tuples import Origin
from tupletree.v1 import worker_pb2
from tupletree.worker.builder import Plan, build_executor, origins
from tupletree.worker.checkpoint.participant import Participant
from tupletree.worker.checkpoint.spout_participant import SpoutParticipant
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant
from tupletree.worker.control_messages import Control
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Batch, Rows, encode
from tupletree.worker.core.task import Environment, Task, TaskFailedError
from tupletree.worker.execution.executor import Executor
from tupletree.worker.execution.inbox import Gate, RemoteBatch
from tupletree.worker.execution.spout_executor import SpoutExecutor

if TYPE_CHECKING:
    from checkpoint_world import Slot, World

STEP_S = 0.001


class Worker:
    """One life of the worker of a slot."""

    def __init__(self, world: World, slot: Slot, number: int) -> None:
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
            report_error=lambda component, task, error: world.tell(f"{self}: {component} {task} reports {error}"),
            is_tracked=True,
            log_emit=lambda component, stream, values: None,
            ids_at_once=8,
            ids_are_seeded=False,
        )
        tasks = frozenset(task for first, last in slot.executors for task in range(first, last + 1))
        plan = Plan(world.topology_id, world.spec, world.conf, world.tasks, tasks, environment, seed=number)
        self.origins = world.origins or origins(plan)
        self.executors = [build_executor(plan, range_, self.gate, self._deliver) for range_ in slot.executors]
        self.by_task = {task.task_id: executor for executor in self.executors for task in executor.tasks}
        self.tasks = {task.task_id: task for executor in self.executors for task in executor.tasks}
        self.peers = Peers(self)
        self.updates = AckUpdates()
        self._scheduled: dict[Executor, float] = {}  # when each is stepped next
        self._is_posting = False
        for task in self.tasks.values():
            self._dress(task)
        for executor in self.executors:
            executor.inbox.wake = functools.partial(self.wake, executor)
        self._share_updates()

    def __repr__(self) -> str:
        return f"worker {self.slot.number}/{self.number}"

    def _dress(self, task: Task) -> None:
        """Give a task what is simulated around it, and the rules that are to be broken in it."""
        rules = self.world.rules
        component = task.spout if hasattr(task, "spout") else task.bolt
        component.worker = self
        task.remake = functools.partial(self._remade, task.remake)
        if isinstance(component, CheckpointSpout):
            component._open_store = lambda conf: SimulatedStore(self.world, self)
            component.__class__ = rules.checkpoint_spout
            component._send = functools.partial(self._send_step, component._send)  # type: ignore[method-assign]
            return
        participant: Any = task.participant
        if participant is None:
            return
        kinds = {Participant: rules.participant, StatefulParticipant: rules.stateful, SpoutParticipant: rules.spout}
        participant.__class__ = kinds[type(participant)]
        participant.barriers.__class__ = rules.barriers
        if getattr(participant, "_state", None) is not None:
            participant._state._open_state = functools.partial(open_state, self, task)
            participant._state._newest_round = functools.partial(newest_round, self.world.store, ID)

    def _remade(self, remake: Callable[[], Any]) -> Any:
        component = remake()
        component.worker = self
        return component

    def _send_step(self, send: Callable[[Step], None], step: Step) -> None:
        self.world.counts[f"sent {step.action.name.lower()}"] += 1
        self.world.tell(f"{self} sends {step}")
        send(step)

    def start(self) -> None:
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
        """Have an executor stepped soon, if it is not to be anyway."""
        if not self.alive:
            return
        at_s = self.world.now_s + (self.world.rng.uniform(0, STEP_S) if delay_s is None else delay_s)
        if at_s < self._scheduled.get(executor, math.inf):
            self._scheduled[executor] = at_s
            self.world.at(at_s - self.world.now_s, functools.partial(self._step, executor, at_s))

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
            self.kill(str(failure))
        finally:
            self.world.running.pop()
            self.is_busy = False
            if self.alive:
                self.post_soon()
        return False

    def kill(self, why: str) -> None:
        """Its memory is gone, with all that it has not told anybody."""
        if self.alive:
            self.alive = False
            self.world.died(self, why)

    def tell(self, control: Control, task: int | None = None) -> None:
        """Tell one of its tasks, or all that begin trees."""
        if self.alive:
            for executor in self.executors if task is None else [self.by_task[task]]:
                if executor.tree_tasks:
                    executor.inbox.put_news(control)

    # Batches

    def _deliver(self, origin: Origin, target: int, rows: Rows) -> None:
        executor = self.by_task.get(target)
        if executor is not None:
            executor.inbox.put(Batch(origin, target, rows), len(rows))
            return
        if self.world.is_faulty and self.world.rng.random() < self.world.faults.torn:
            self.kill("while it hands over")
            raise Killed
        self.peers.send(encode(origin, target, rows))

    def receive(self, message: worker_pb2.Batch) -> None:
        origin = self.origins[message.source_task, message.stream]
        self.by_task[message.target_task].inbox.put(RemoteBatch(message, origin), message.rows)

    def _gate_changed(self) -> None:
        for executor in getattr(self, "executors", ()):
            self.wake(executor)

    # What the ackers are told

    def _share_updates(self) -> None:
        for task in self.tasks.values():
            task.use(self.updates)

    def post_soon(self) -> None:
        if self.updates and not self._is_posting:
            self._is_posting = True
            self.world.at(self.world.rng.uniform(0, 0.01), self._post)

    def _post(self) -> None:
        self._is_posting = False
        if self.alive and self.is_busy:
            self.post_soon()
        elif self.alive and self.updates:
            updates, self.updates = self.updates, AckUpdates()
            self._share_updates()
            self.world.acker.post(self, updates)

    def fail(self, roots: set[int]) -> None:
        """Trees whose tuples may be lost."""
        if self.alive and roots:
            self.updates.fails.update(roots)
            self.post_soon()
