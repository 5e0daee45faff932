"""The engine of a worker: its executors, their run loops, and the gate between them and the outside.

The engine does not use the network or ZooKeeper. Its host is either a worker process (daemon.py) or a LocalCluster
(tupletree.testing). The host passes incoming tuples and verdicts to the engine, and delivers the engine's output to
other workers and ackers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tupletree.errors import ProtocolError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.parallelism import ExecutorTasks
from tupletree.tuples import Origin
from tupletree.v1 import nimbus_pb2, worker_pb2

from .builder import Plan, build_executors, origins
from .control_messages import Control
from .core.ack_updates import AckUpdates
from .core.batches import Batch, Rows, bytes_of, check, decode
from .core.bolt_task import BoltTask
from .core.spout_task import SpoutTask
from .core.task import TaskFailedError
from .execution.call_durations import Present
from .execution.executor import Executor
from .execution.inbox import ACKERS, Gate, Inbox, RemoteBatch
from .execution.outgoing_batches import send_bounded
from .execution.run_loop import LoopSettings, RunLoop
from .execution.spout_executor import SpoutExecutor
from .execution.task_stats import task_stats
from .execution.tracer import Tracer


class Outside(Protocol):
    """The host's side of an engine. Methods may be called from any thread and must not block."""

    def send(self, batch: worker_pb2.Batch) -> None:
        """Send tuples to a task of another worker."""

    def post(self, updates: AckUpdates) -> None:
        """Send ledger updates to the ackers."""

    def failed(self, failure: TaskFailedError) -> None:
        """Report that a component raised and its run loop has ended."""

    def congestion_changed(self) -> None:
        """Report that ``congested_tasks`` may have changed."""


class Engine:
    """The executors of one worker, from ``start`` to ``stop``."""

    def __init__(
        self,
        plan: Plan,
        executors: Iterable[ExecutorTasks],
        outside: Outside,
        on_blocking: Callable[[Executor], None],
    ) -> None:
        conf = plan.conf
        self.gate = Gate(self._gate_changed)
        self.origins = origins(plan)
        self.loops: list[RunLoop] = []
        self.tracer: Tracer | None = None  # for batches from other workers
        self._outside = outside
        self._on_blocking = on_blocking
        self.max_bytes: int = conf["topology.tuple.max.bytes"]
        self._always_serialize = bool(conf["topology.testing.always.try.serialize"])
        self._loops_lock = threading.Lock()  # guards changes of the list of loops and of the flag below
        self._is_stopping = False
        self._shared: RunLoop | None = None  # runs all executors that need no loop of their own
        self._settings = LoopSettings(
            clock=plan.environment.clock,
            batch_size=conf["topology.transfer.batch.size"],
            flush_interval_s=conf["topology.flush.interval.ms"] / 1000,
            post=outside.post,
            on_failure=outside.failed,
            on_split=self._split,
        )
        self._inboxes: dict[int, Inbox] = {}
        self.executors = build_executors(plan, executors, self.gate, self._deliver)
        self._inboxes |= {task.task_id: executor.inbox for executor in self.executors for task in executor.tasks}
        self.spout_tasks = sorted(
            task.task_id
            for executor in self.executors
            if isinstance(executor, SpoutExecutor)
            for task in executor.tasks
        )
        self.tree_tasks = sorted(task for executor in self.executors for task in executor.tree_tasks)

    def start(self) -> None:
        """Start the run loops. Spouts emit nothing until ``set_active``."""
        shared = [executor for executor in self.executors if not executor.is_blocking]
        alone = [[executor] for executor in self.executors if executor.is_blocking]
        if shared:
            self._start_loop(shared, is_shared=True)
        for executors in alone:
            self._start_loop(executors, is_shared=False)

    def stop(self, timeout_s: float) -> None:
        """Close the components and end the run loops. Abandon loops that do not end within ``timeout_s``."""
        deadline_s = time.monotonic() + timeout_s
        with self._loops_lock:
            self._is_stopping = True
        for loop in self.loops:
            loop.stop()
        joined = 0
        while joined < len(self.loops):  # the watchdog may still move executors to a new loop
            self.loops[joined].join(max(0.0, deadline_s - time.monotonic()))
            joined += 1

    @property
    def has_opened(self) -> bool:
        """True if the bolts of every run loop are prepared."""
        return all(loop.has_opened.is_set() for loop in self.loops)

    def wake(self) -> None:
        """Wake every run loop, so that idle sources are polled again."""
        for loop in self.loops:
            loop.rouse()

    def set_active(self, is_active: bool) -> None:
        """Let the spouts emit, or stop them."""
        for executor in self.executors:
            if isinstance(executor, SpoutExecutor):
                executor.wants_active = is_active
        self.wake()

    def notify_task(self, task: int, control: Control) -> None:
        """Queue a control message for a task that begins trees. Ignored if the task is not in this worker."""
        if task in self._inboxes:
            self._inboxes[task].put_news(control)

    def notify_spouts(self, control: Control) -> None:
        """Send a message to every executor whose tasks begin trees, as spouts do."""
        for executor in self.executors:
            if executor.tree_tasks:
                executor.inbox.put_news(control)

    def receive(self, message: worker_pb2.Batch) -> int:
        """Queue a batch from another worker; return its approximate size in bytes.

        Raises:
            ProtocolError: the batch is malformed or has no receiver here. No part of the batch was queued.
        """
        origin = self.origins.get((message.source_task, message.stream))
        inbox = self._inboxes.get(message.target_task)
        if origin is None or inbox is None or not self._accepts(message):
            raise ProtocolError(
                f"unexpected batch from task {message.source_task} on stream {message.stream!r} to task "
                f"{message.target_task}: the stream is unknown, or no such bolt task runs in this worker"
            )
        check(message)
        if self.tracer is not None:
            self.tracer.received(message)
        size = bytes_of(message)
        inbox.put(RemoteBatch(message, origin), message.rows, size)
        return size

    def _accepts(self, message: worker_pb2.Batch) -> bool:
        """True if the target task accepts the batch. A spout accepts only checkpoint steps."""
        return message.target_task not in self.spout_tasks or message.stream == CHECKPOINT_STREAM

    @property
    def congested_tasks(self) -> list[int]:
        """The congested tasks of this worker, ascending. Senders should hold tuples for these tasks."""
        return sorted(task for task, inbox in self._inboxes.items() if inbox.is_congested)

    def set_ackers_ready(self, is_ready: bool) -> None:
        """Let tracking spouts emit only while every shard has its acker."""
        self.gate.set("ackers", () if is_ready else [ACKERS])

    def run_watchdog(self) -> None:
        """Run the watchdog once."""
        now_s = time.perf_counter()
        for loop in list(self.loops):
            loop.run_watchdog(now_s)
        self._bring_together(now_s)

    def statistics(self) -> list[nimbus_pb2.TaskStats]:
        """Return the statistics of each task. Any thread. The values of one task are not read atomically."""
        return [task_stats(task, executor) for executor in self.executors for task in executor.tasks]

    def present_steps(self) -> list[Present]:
        """Return the current call of each run loop, except calls that may last forever. Any thread."""
        steps = [(loop, *loop.present) for loop in self.loops]
        return [
            (loop, (step, executor.progress), [executor.at_work.task_id])
            for loop, step, executor in steps
            if executor is not None and not executor.may_wait
        ]

    def unfinished(self) -> tuple[bool, int]:
        """Return whether all spouts are deactivated, and the amount of unfinished work, counted afterwards. Any thread.

        The count is the sum of trees that are pending or wait for a checkpoint, of waiting tuples, and of executors
        with buffered tuples.
        """
        spouts = [one for one in self.executors if isinstance(one, SpoutExecutor)]
        is_paused = all(one.is_paused for one in spouts)
        tasks = [task for one in spouts for task in one.tasks if isinstance(task, SpoutTask)]
        pending = sum(len(task.pending) + task.uncommitted for task in tasks)
        begun = sum(len(task.trees) for one in self.executors for task in one.tasks if isinstance(task, BoltTask))
        waiting = sum(max(0, one.inbox.rows) + one.has_buffered for one in self.executors)
        return is_paused, pending + begun + waiting

    def held_s(self) -> dict[int, dict[str, float]]:
        """Return the seconds during which each spout task was active but not polled, by cause. Any thread."""
        return {
            task.task_id: executor.held_s()
            for executor in self.executors
            if isinstance(executor, SpoutExecutor)
            for task in executor.tasks
        }

    def _gate_changed(self) -> None:
        self.wake()
        self._outside.congestion_changed()

    def _bring_together(self, now_s: float) -> None:
        """Return executors to the shared loop once they no longer need their own."""
        with self._loops_lock:
            if self._is_stopping:
                return
            self.loops = [loop for loop in self.loops if not loop.has_retired]
            others = [loop for loop in self.loops if loop is not self._shared]
        for loop in others:
            if loop.may_retire(now_s):
                loop.retire(self._restore)

    def _restore(self, executors: Sequence[Executor]) -> bool:
        shared = self._shared
        return shared is not None and shared.offer(executors)

    def _start_loop(self, executors: Sequence[Executor], *, is_shared: bool) -> None:
        name = f"run-loop-{executors[0].component_id}" if len(executors) == 1 else "run-loop"
        loop = RunLoop(name, executors, self._settings)
        with self._loops_lock:
            self.loops = [*self.loops, loop]
            if is_shared:  # in one step: the watchdog asks every other loop to give its executors to this one
                self._shared = loop
            if self._is_stopping:
                loop.stop()
            loop.start()

    def _split(self, blocking: Executor, moved: Sequence[Executor]) -> None:
        is_left_alone = self._shared is not None and blocking in self._shared.executors
        self._start_loop(moved, is_shared=is_left_alone)
        if blocking.is_found_blocking:
            self._on_blocking(blocking)

    def _deliver(self, origin: Origin, target_task: int, rows: Rows) -> None:
        inbox = self._inboxes.get(target_task)
        if inbox is None:
            send_bounded(origin, target_task, rows, self.max_bytes, self._outside.send)
        elif self._always_serialize:
            send_bounded(origin, target_task, rows, self.max_bytes, lambda message: self._copy(message, origin))
        else:
            inbox.put(Batch(origin, target_task, rows), len(rows), rows.size)

    def _copy(self, message: worker_pb2.Batch, origin: Origin) -> None:
        """Decode an encoded batch and deliver it to a task of this worker."""
        rows = decode(message, origin)
        self._inboxes[message.target_task].put(Batch(origin, message.target_task, rows), len(rows), rows.size)


def local_tasks(executors: Iterable[ExecutorTasks]) -> frozenset[int]:
    """Return every task of the given executors."""
    return frozenset(task for first, last in executors for task in range(first, last + 1))
