"""The engine of a worker: its executors, their run loops, and the gate between them and the outside.

The engine does not use the network or ZooKeeper. Its host is either a worker process (daemon.py) or a LocalCluster
(tupletree.testing). The host passes incoming tuples and verdicts to the engine, and delivers the engine's output to
other workers and ackers.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tupletree.errors import ProtocolError, TaskFailedError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.parallelism import ExecutorTasks
from tupletree.tuples import Origin
from tupletree.v1 import nimbus_pb2

from .blobs import tell
from .builder import build_executors, origins
from .control_messages import ConfChanged, Control
from .core.ack_updates import AckUpdates
from .core.batches import Batch, EncodedBatch, Rows, bytes_of, check, decode, encode, sources_of, tasks_of
from .core.bolt_task import BoltTask
from .core.spout_task import SpoutTask
from .execution.bolt_executor import TICK_ORIGIN, BoltExecutor
from .execution.call_durations import Present
from .execution.delivery import put_again, put_local, put_remote
from .execution.executor import Executor
from .execution.inbox import ACKERS, Gate, Inbox, RemoteBatch
from .execution.load_sampler import LoadSampler, by_wait, has_ended_early
from .execution.loop_settings import LoopSettings
from .execution.outgoing_batches import send_bounded
from .execution.run_loop import RunLoop
from .execution.spout_executor import SpoutExecutor
from .execution.task_stats import task_stats
from .execution.tracer import Tracer
from .hooks.event_loggers import EventLoggers
from .hooks.worker_hooks import WorkerHooks
from .plan import Plan


class Outside(Protocol):
    """The host's side of an engine. Methods may be called from any thread and must not block."""

    def send(self, batch: EncodedBatch, tasks: frozenset[int]) -> None:
        """Send tuples to tasks of other workers. ``tasks`` holds all of these; those that are asked for often."""

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
        self.fields_groupings = plan.fields_groupings
        self.loops: list[RunLoop] = []
        self.tracer: Tracer | None = None  # for batches from other workers
        self._outside = outside
        self._shared_objects = plan.shared
        self._worker_hooks = WorkerHooks(plan)
        self.event_loggers = EventLoggers.named(self._worker_hooks.context, plan.environment.report_error)
        self._on_blocking = on_blocking
        self.max_bytes: int = conf["topology.tuple.max.bytes"]
        self._always_serialize = bool(conf["topology.testing.always.try.serialize"])
        self._loops_lock = threading.Lock()  # guards changes of the executors, the list of loops and the flag below
        self._is_stopping = False
        self._clock = plan.environment.clock
        is_simulated = plan.environment.unix_clock is None  # then threads take no time, and turns are to be repeatable
        self._sampler = None if is_simulated or conf["topology.disable.loadaware.messaging"] else LoadSampler()
        self._shared: RunLoop | None = None  # runs all executors that need no loop of their own
        self._settings = LoopSettings(
            clock=plan.environment.clock,
            batch_size=conf["topology.transfer.batch.size"],
            flush_interval_s=conf["topology.flush.interval.ms"] / 1000,
            post=outside.post,
            on_failure=outside.failed,
            on_split=self._split,
            on_divide=self._divide,
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
        self._spouts = frozenset(self.spout_tasks)
        self.tree_tasks = sorted(task for executor in self.executors for task in executor.tree_tasks)

    def start_hooks(self) -> None:
        """Start the hooks of the worker: before ``start``. Raises TopologyError if one raises; then ``stop`` is due."""
        self._worker_hooks.start()

    def start(self) -> None:
        """Start the run loops. Spouts emit nothing until ``set_active``."""
        shared = [executor for executor in self.executors if not executor.is_blocking]
        alone = [[executor] for executor in self.executors if executor.is_blocking]
        if shared:
            self._start_loop(shared, is_shared=True)
        for executors in alone:
            self._start_loop(executors, is_shared=False)

    def stop(self, timeout_s: float) -> None:
        """Close the components, end the run loops, close what the tasks shared, and shut the worker's hooks down.

        Loops that do not end within ``timeout_s`` are abandoned; then nothing shared is closed, as they may use it.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._loops_lock:
            self._is_stopping = True
        for loop in self.loops:
            loop.stop()
        joined = 0
        while joined < len(self.loops):  # the watchdog may still move executors to a new loop
            self.loops[joined].join(max(0.0, deadline_s - time.monotonic()))
            joined += 1
        self.event_loggers.close()
        if not any(loop.is_alive() for loop in self.loops):
            self._shared_objects.close()
            self._worker_hooks.shutdown()

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

    def change_conf(self, changes: Mapping[str, Any]) -> None:
        """Give components and executors new values of keys that change live. Each adopts them on its own thread."""
        for executor in self.executors:
            executor.inbox.put_news(ConfChanged(changes))

    def tell_of_blobs(self, paths: Mapping[str, str]) -> None:
        """Tell components of new versions of blobs: their paths, by local name. Each is told on its own thread."""
        for executor in self.executors:
            for task in executor.tasks:
                for name, path in paths.items():
                    tell(task, name, path)

    def notify_task(self, task: int, control: Control) -> None:
        """Queue a control message for a task that begins trees. Ignored if the task is not in this worker."""
        if task in self._inboxes:
            self._inboxes[task].put_news(control)

    def notify_spouts(self, control: Control) -> None:
        """Send a message to every executor whose tasks begin trees, as spouts do."""
        for executor in self.executors:
            if executor.tree_tasks:
                executor.inbox.put_news(control)

    def receive(self, batch: EncodedBatch) -> int:
        """Queue a batch from another worker; return its approximate size in bytes.

        Raises:
            ProtocolError: the batch is malformed or has no receiver here. No part of the batch was queued.
        """
        check(batch)
        tasks, sources = tasks_of(batch), sources_of(batch)
        origin = self._origin_of(sources, batch.stream)
        if origin is None or not all(self._accepts(task, batch.stream) for task in tasks):
            raise ProtocolError(
                f"unexpected batch from task {_named(sources)} on stream {batch.stream!r} to task "
                f"{_named(tasks)}: the stream is unknown, or no such bolt task runs in this worker"
            )
        if self.tracer is not None:
            self.tracer.received(batch)
        size = bytes_of(batch)
        put_remote(self._inboxes, RemoteBatch(batch, origin), tasks, size)
        return size

    def _origin_of(self, sources: frozenset[int], stream: str) -> Origin | None:
        """Return the origin of a batch, if all of these tasks are of one component and have the stream."""
        first = self.origins.get((min(sources), stream))
        if first is None or len(sources) == 1:
            return first
        found = [self.origins.get((source, stream)) for source in sources]
        return first if all(one is not None and one.siblings is first.siblings for one in found) else None

    def _accepts(self, task: int, stream: str) -> bool:
        """True if the task runs here and accepts the stream. A spout accepts only checkpoint steps."""
        return task in self._inboxes and (stream == CHECKPOINT_STREAM or task not in self._spouts)

    @property
    def congested_tasks(self) -> list[int]:
        """The congested tasks of this worker, ascending. Senders should hold tuples for these tasks."""
        return sorted(task for task, inbox in self._inboxes.items() if inbox.is_congested)

    def set_ackers_ready(self, is_ready: bool) -> None:
        """Let tracking spouts emit only while every shard has its acker."""
        self.gate.set("ackers", () if is_ready else [ACKERS])

    @property
    def loads(self) -> list[tuple[Sequence[int], int]]:
        """Tasks of this worker and the milliseconds that a tuple sent now waits for them; others are free."""
        return by_wait(self.free_s, self._clock())

    @property
    def free_s(self) -> Mapping[int, float]:
        """When each loaded task has executed all that waits for it, by the last sample."""
        return {} if self._sampler is None else self._sampler.free_s

    def is_free_early(self, told_s: Mapping[int, float]) -> bool:
        """True if a task is free now, and was to be only much later by an earlier ``free_s``."""
        return has_ended_early(told_s, self.free_s, self._clock())

    def run_watchdog(self) -> None:
        """Run the watchdog once, and sample the loads."""
        now_s = time.perf_counter()
        for loop in list(self.loops):
            loop.run_watchdog(now_s)
        self._bring_together(now_s)
        if self._sampler is not None:
            inboxes = [executor.inbox for executor in self.executors if not executor.is_source]
            self.gate.loads.set("own", self._sampler.sample(inboxes, self._clock()))

    def statistics(self) -> list[nimbus_pb2.TaskStats]:
        """Return the statistics of each task. Any thread. The values of one task are not read atomically."""
        return [task_stats(task, executor) for executor in self.executors for task in executor.tasks]

    def present_steps(self) -> list[Present]:
        """Return the current call of each run loop, except calls that may last forever. Any thread."""
        steps = [(loop, *loop.present) for loop in self.loops]
        return [
            (loop, (step, executor.progress), [executor.present_task.task_id])
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

    @property
    def is_opening(self) -> bool:
        """True while the topology is active and a spout has not opened. Any thread."""
        return any(one.is_opening for one in self.executors if isinstance(one, SpoutExecutor))

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

    def _divide(self, executor: Executor) -> Executor:
        """Replace an executor by the parts that it is made of. Return the first; the others get loops of their own.

        Call on the executor's thread, after a flush. Senders find the parts only when these have all that waited:
        otherwise what is sent now would overtake it.
        """
        assert isinstance(executor, BoltExecutor)
        parts = executor.divided(time.perf_counter())
        inboxes = {task.task_id: part.inbox for part in parts for task in part.tasks}
        executor.inbox.forward(functools.partial(_put_again, inboxes), functools.partial(_put_news, parts))
        with self._loops_lock:  # other executors may be divided at the same time
            at = self.executors.index(executor)
            self.executors = [*self.executors[:at], *parts, *self.executors[at + 1 :]]
            self._inboxes = self._inboxes | inboxes  # replaced as a whole: a sender reads it once for each batch
        for part in parts[1:]:
            self._start_loop([part], is_shared=False)
        return parts[0]

    def _deliver(self, origin: Origin, target: int, rows: Rows, tasks: frozenset[int]) -> None:
        """Hand over rows for a task, or MIXED rows for some of ``tasks``, which are all here or all elsewhere."""
        if next(iter(tasks)) not in self._inboxes:
            send_bounded(origin, target, rows, self.max_bytes, lambda batch: self._outside.send(batch, tasks))
        elif self._always_serialize:
            send_bounded(origin, target, rows, self.max_bytes, lambda batch: self._copy(batch, origin))
        else:
            put_local(self._inboxes, Batch(origin, target, rows), tasks)

    def _copy(self, batch: EncodedBatch, origin: Origin) -> None:
        """Decode an encoded batch and deliver it to a task of this worker."""
        put_local(self._inboxes, Batch(origin, batch.target_task, decode(batch, origin)), tasks_of(batch))

    def split(self, batch: EncodedBatch) -> list[tuple[EncodedBatch, frozenset[int]]]:
        """Return a mixed batch for other workers as one batch for each task, with the task."""
        origin = self.origins[min(sources_of(batch)), batch.stream]
        parts = decode(batch, origin).by_target()
        return [(encode(origin, task, rows), frozenset([task])) for task, rows in parts]


def _named(tasks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(tasks)))


def _put_again(inboxes: Mapping[int, Inbox], item: Any, size: int) -> None:
    """Pass on an item of an executor that was divided to the parts that have its tasks."""
    if not isinstance(item, Batch) or item.origin is not TICK_ORIGIN:  # the parts have ticks of their own
        put_again(inboxes, item, size)


def _put_news(parts: Iterable[Executor], news: Any) -> None:
    """Pass on a control message: to the part that has its task, or to all of them."""
    task = getattr(news, "task", None)
    for executor in parts:
        if task is None or any(one.task_id == task for one in executor.tasks):
            executor.inbox.put_news(news)


def local_tasks(executors: Iterable[ExecutorTasks]) -> frozenset[int]:
    """Return every task of the given executors."""
    return frozenset(task for first, last in executors for task in range(first, last + 1))
