"""One topology in this process, on threads: a worker's real engine and an acker's real ledgers."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol, runtime_checkable

from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._wire.fail_reasons import WaitingReasons
from tupletree._wire.statuses import decode_status, encode_status
from tupletree.acker.ledger import Ledger
from tupletree.component import Spout
from tupletree.errors import TaskFailedError, TopologyError
from tupletree.outputs import RESERVED_PREFIXES
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing.counts import ComponentCounts, counts_of
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology
from tupletree.worker.blobs import BlobPaths
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates, split
from tupletree.worker.core.bolt_task import BoltTask
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.core.task import Environment, Observer, Task
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.execution.bolt_executor import BoltExecutor
from tupletree.worker.execution.executor import Executor
from tupletree.worker.execution.task_stats import task_stats
from tupletree.worker.plan import Plan

log = logging.getLogger(__name__)

STEP_S = 1.0
STOP_TIMEOUT_S = 5.0


@runtime_checkable
class WatchingSpout(Protocol):
    """A spout that follows the start and the failure of its local topology: DRPCSpout."""

    def topology_starts(self) -> None: ...
    def topology_failed(self, failure: TaskFailedError) -> None: ...


class LocalTopology:
    """One topology in this process: an engine, and the ledgers of its shards."""

    def __init__(
        self, name: str, topology: Topology, conf: Mapping[str, Any], clock: Callable[[], float],
        observer: Observer | None = None, blobs: BlobPaths | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.conf = conf
        self._blobs = blobs or BlobPaths()
        self.errors: list[tuple[str, BaseException]] = []
        self.failure: TaskFailedError | None = None
        self._clock = clock
        self._lock = threading.Lock()
        shards = conf["topology.acker.executors"]
        self._ledgers = [Ledger() for _ in range(conf["topology.workers"] if shards is None else shards)]
        self._reasons = WaitingReasons()
        self._timeout_s = conf["topology.message.timeout.secs"]
        self._next_rotation_s = clock() + self._timeout_s
        self._trees_expire = conf["topology.enable.message.timeouts"]
        self._components = list(topology.components)
        spec = topology.spec()
        tasks = tasks_of(spec, conf)
        executors = executors_of(tasks, executor_counts(spec, conf))
        environment = Environment(
            clock=clock,
            getrandbits=random.Random().getrandbits,
            report_error=self._report_error,
            is_tracked=bool(self._ledgers),
            log_emit=_log_emit,
            unix_clock=time.time if clock is time.monotonic else None,
        )
        plan = Plan(
            topology_id=name,
            spec=spec,
            conf=conf,
            tasks=tasks,
            local_tasks=local_tasks(executors),
            environment=environment,
            seed=random.getrandbits(64),
            observer=observer,
            blob=self._blobs.find,
        )
        self.engine = Engine(plan, executors, self, self._on_blocking)
        self.shortest_tick_s = min(
            (task.context.conf["topology.tick.tuple.freq.secs"] or STEP_S for task in self.tasks), default=STEP_S
        )  # fmt: skip

    def start(self, is_active: bool) -> None:
        """Start the run loops and, if ``is_active``, the spouts."""
        try:
            self.engine.start_hooks()
        except TopologyError:
            self.engine.stop(STOP_TIMEOUT_S)
            raise
        for spout in self._watching_spouts:
            spout.topology_starts()
        self.engine.start()
        self.engine.set_active(is_active)

    def tell_of_blobs(self, paths: Mapping[str, str]) -> None:
        """Adopt new files of blobs, by local name, and tell the components."""
        self._blobs.update(paths)
        self.engine.tell_of_blobs(paths)

    def send(self, batch: object, tasks: frozenset[int]) -> None:
        """Never called: there is no other worker."""
        raise AssertionError(f"a local topology has no other worker to send {batch} to")

    def post(self, updates: AckUpdates) -> None:
        """Apply ledger updates and send the results to the spouts. Called on run loop threads."""
        with self._lock:
            self._reasons.add(updates.reasons)
            for shard, part in split(updates, len(self._ledgers)).items() if self._ledgers else ():
                self._deliver(self._apply(self._ledgers[shard], part))

    def _apply(self, ledger: Ledger, part: AckUpdates) -> Any:
        return ledger.apply(*part.columns(), self._clock())

    def _deliver(self, verdicts: Any) -> None:
        for kind in VerdictKind:
            for task, roots in getattr(verdicts, kind.value).items():
                reasons = self._reasons.take(roots) if kind is VerdictKind.FAILED else {}
                self.engine.notify_task(task, TreeVerdict(task, kind, roots, reasons))

    def failed(self, failure: TaskFailedError) -> None:
        """End the topology because a component raised. Called on run loop threads, which cannot join each other."""
        self.failure = self.failure or failure
        for spout in self._watching_spouts:
            spout.topology_failed(self.failure)
        for loop in self.engine.loops:
            loop.stop()

    def congestion_changed(self) -> None:
        """Do nothing: no tuples come from other workers."""

    def _report_error(self, component: str, task: int, error: BaseException) -> None:
        self.errors.append((component, error))

    def _on_blocking(self, executor: Executor) -> None:
        """Do nothing when an executor has moved to its own run loop."""

    def keep_house(self) -> None:
        """Rotate the ledgers if due, and move a blocking executor away from its run loop."""
        with self._lock:
            while self._next_rotation_s <= self._clock():
                self._next_rotation_s += self._timeout_s
                for ledger in self._ledgers:
                    self._deliver(ledger.rotate(self._clock(), trees_expire=self._trees_expire))
        self.engine.run_watchdog()

    @property
    def tasks(self) -> list[Task]:
        """The tasks of all components."""
        return [task for executor in self.engine.executors for task in executor.tasks]

    def state(self, component: str) -> dict[Any, Any]:
        """Return the content of the states of a component's tasks, read on their own threads.

        Raises:
            TaskFailedError: a component raised.
        """
        found: dict[Any, Any] = {}
        for task in self.tasks:
            participant = task.participant
            if task.component_id == component and isinstance(participant, StatefulParticipant):
                has_read = threading.Event()

                def read(participant: StatefulParticipant = participant, has_read: threading.Event = has_read) -> None:
                    found.update(participant.state)
                    has_read.set()

                assert task.ask_soon is not None
                task.ask_soon(False, None, read)
                what = f"task {task.task_id} of {component!r} answers"
                wait_until(lambda: has_read.is_set() or self.failure, STOP_TIMEOUT_S, what=what)  # noqa: B023, called now
                if not has_read.is_set():
                    self.raise_failure()
        return found

    @property
    def statuses(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The statuses of tasks that have registered one, by component and task id."""
        return {
            (task.component_id, task.task_id): decode_status(encode_status(task.context.status)) or {}
            for task in self.tasks
            if task.context.status is not None
        }

    @property
    def stateful(self) -> list[str]:
        """The components with states."""
        return sorted({task.component_id for task in self.tasks if isinstance(task.participant, StatefulParticipant)})

    @property
    def executions(self) -> dict[str, tuple[int, int]]:
        """For each bolt that acks by hand, how many tuples it executed, and how many it acked or failed."""
        found: dict[str, tuple[int, int]] = {}
        for task in self.tasks:
            if isinstance(task, BoltTask):
                executed, ended = found.get(task.component_id, (0, 0))
                counters = task.counters
                found[task.component_id] = (executed + counters.executed, ended + counters.acked + counters.failed)
        return found

    @property
    def counts(self) -> dict[str, ComponentCounts]:
        """The counts of the components of the user, of all their tasks."""
        found = {id: ComponentCounts() for id in self._components if not id.startswith(RESERVED_PREFIXES)}
        for executor in self.engine.executors:
            for task in executor.tasks:
                if task.component_id in found:
                    found[task.component_id] += counts_of(task_stats(task, executor))
        return found

    @property
    def is_at_end(self) -> bool:
        """True if ``at_end`` of every spout is true (ReliableSpout): all is read, and all messages are processed.

        A checkpoint of which spouts have heard is complete then, also in the components behind them.
        """
        return self._is_processed and all(spout.is_between for spout in self._checkpoint_spouts)

    @property
    def _is_processed(self) -> bool:
        return all(getattr(spout, "at_end", False) for spout in self._spouts)

    @property
    def _spouts(self) -> list[Spout]:
        """The spouts of the user."""
        return [
            task.spout
            for task in self.tasks
            if isinstance(task, SpoutTask) and not isinstance(task.spout, CheckpointSpout)
        ]

    @property
    def _watching_spouts(self) -> list[WatchingSpout]:
        return [spout for spout in self._spouts if isinstance(spout, WatchingSpout)]

    def end_input(self) -> Iterator[str]:
        """Tell each component that follows time that no input comes, and yield it: those first that feed others."""
        tasks: dict[str, list[Task]] = {}
        for task in self.tasks:
            tasks.setdefault(task.component_id, []).append(task)
        for component in _upstream_first(
            {id: {source for source, _ in of[0].context.sources} for id, of in tasks.items()}
        ):
            ends = [(task, _end_of_input(task)) for task in tasks[component]]
            for task, end_of_input in ends:
                if end_of_input is not None:
                    task.context.call_soon(end_of_input)
            if any(end_of_input is not None for _, end_of_input in ends):
                yield component

    @property
    def checkpoint(self) -> int | None:
        """The number of the checkpoint that is under way or the last one; None without states."""
        status = next((one for (id, _), one in self.statuses.items() if id == CHECKPOINT_SPOUT), None)
        return None if status is None else status.get("txid") or 0

    @property
    def _checkpoint_spouts(self) -> list[CheckpointSpout]:
        spouts = [task.spout for task in self.tasks if isinstance(task, SpoutTask)]
        return [spout for spout in spouts if isinstance(spout, CheckpointSpout)]

    def hurry(self, *, is_final: bool = False) -> None:
        """Once all sources are read: begin the next checkpoint, and tick bolts that hold tuples until a tick.

        Not if all messages are processed, unless ``is_final``: then only the present checkpoint has to end.
        """
        if self._is_processed and not is_final:
            return
        if not all(getattr(spout, "has_read_all", False) or getattr(spout, "at_end", False) for spout in self._spouts):
            return
        for executor in self.engine.executors:
            for task in executor.tasks:
                if isinstance(task, SpoutTask) and isinstance(task.spout, CheckpointSpout):
                    task.context.call_soon(task.spout.hurry)
                elif isinstance(executor, BoltExecutor) and isinstance(task, BoltTask) and task.bolt.holds_tuples:
                    task.context.call_soon(executor.tick_now)

    def raise_failure(self) -> None:
        """Raise the failure of a component, if there was any."""
        if self.failure is not None:
            raise self.failure

    def has_turned(self, turns: int, since: Mapping[Any, int]) -> bool:
        """True if every live run loop has made ``turns`` rounds since ``turns_now`` returned ``since``."""
        self.raise_failure()
        self.engine.wake()
        return all(loop.turns >= since.get(loop, 0) + turns or not loop.is_alive() for loop in self.engine.loops)

    def wait_turned(self, turns: int, since: Mapping[Any, int], timeout_s: float = 10) -> None:
        """Wait for ``has_turned``, normally microseconds, longer if a component is slow."""
        what = f"topology {self.name!r} answers"
        wait_until(lambda: self.has_turned(turns, since), timeout_s, what=what, pause_s=0.0002)

    def turns_now(self) -> dict[Any, int]:
        """Return the number of rounds made by each run loop."""
        return {loop: loop.turns for loop in self.engine.loops}

    def is_quiet(self, timeout_s: float) -> bool:
        """True if no run loop finds work in two more rounds, and no tuple or update waits anywhere."""
        busy = sum(loop.busy_turns for loop in self.engine.loops)
        turns = self.turns_now()
        self.wait_turned(2, turns, timeout_s)
        return (
            busy == sum(loop.busy_turns for loop in self.engine.loops)
            and not any(loop.updates for loop in self.engine.loops)
            and not any(
                executor.inbox or executor.has_buffered or executor.has_held_back for executor in self.engine.executors
            )
            and not any(task.context.outstanding() for task in self.tasks)
        )

    def stop(self) -> None:
        """Close the components and end the threads."""
        self.engine.stop(STOP_TIMEOUT_S)


def _end_of_input(task: Task) -> Callable[[], None] | None:
    """Return what to call when no input comes any more; None if a task does not follow time."""
    if isinstance(task, SpoutTask):
        return None if task.context.source_progress is None else task.end_of_input
    end: Callable[[], None] | None = getattr(getattr(task, "bolt", None), "end_of_input", None)
    return end


def _upstream_first(sources: Mapping[str, set[str]]) -> list[str]:
    """Return components in an order in which each comes after its sources, or in any if they feed each other."""
    try:
        return [one for one in TopologicalSorter(sources).static_order() if one in sources]
    except CycleError:
        return list(sources)


def _log_emit(component: str, stream: str, values: Sequence[Any]) -> None:
    log.info("%s emitted %r on %s", component, values, stream)
