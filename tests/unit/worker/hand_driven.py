"""The executors of a topology, stepped one at a time on the test's own thread: no run loop, no clock but the test's."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from tupletree import config
from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.topology import Topology
from tupletree.tuples import Origin
from tupletree.worker.builder import build_executors
from tupletree.worker.control_messages import Control, TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import Batch, Row, Rows
from tupletree.worker.core.spout_task import NO_REASONS
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import local_tasks
from tupletree.worker.execution.delivery import put_local
from tupletree.worker.execution.executor import Executor
from tupletree.worker.execution.inbox import Gate
from tupletree.worker.execution.spout_executor import SpoutExecutor
from tupletree.worker.plan import Plan


class HandDriven:
    """A worker without threads. What an executor emits lies in the receiver's inbox after ``step``; what it has to tell
    the ackers is in ``updates`` until the test takes it."""

    def __init__(
        self,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        getrandbits: Callable[[int], int] | None = None,
        is_tracked: bool = True,
        is_active: bool = True,
    ) -> None:
        merged = {**config.defaults(), **(conf or {})}
        spec = topology.spec()
        self.now_s = 0.0
        self.logged: list[tuple[str, str, list[Any]]] = []
        self.errors: list[tuple[str, int, BaseException]] = []
        self.delivered: list[tuple[Origin, int, list[Row]]] = []
        self.tasks = {component: list(ids) for component, ids in tasks_of(spec, merged).items()}
        ranges = executors_of(tasks_of(spec, merged), executor_counts(spec, merged))
        environment = Environment(
            clock=lambda: self.now_s,
            getrandbits=getrandbits or random.Random(1).getrandbits,
            report_error=lambda component, task, error: self.errors.append((component, task, error)),
            is_tracked=is_tracked,
            log_emit=lambda component, stream, values: self.logged.append((component, stream, list(values))),
            ids_at_once=1 if getrandbits else 256,
            ids_are_seeded=False,
        )
        plan = Plan("hand", spec, merged, self.tasks, local_tasks(ranges), environment, seed=1)
        self.gate = Gate(lambda: None)
        self.executors = build_executors(plan, ranges, self.gate, self._deliver)
        self._by_task = {task.task_id: executor for executor in self.executors for task in executor.tasks}
        self.updates = AckUpdates()
        self._share_updates()
        for executor in self.executors:
            executor.open()
            if isinstance(executor, SpoutExecutor):
                executor.wants_active = is_active

    def executor(self, component: str, index: int = 0) -> Executor:
        """The executor of a component's task."""
        return self._by_task[self.tasks[component][index]]

    def step(self, component: str, index: int = 0) -> bool:
        """One step of one executor, and the handing over of all it emitted."""
        executor = self.executor(component, index)
        worked = executor.step()
        executor.flush()
        return worked

    def take_updates(self) -> AckUpdates:
        """What would go to the ackers now."""
        updates, self.updates = self.updates, AckUpdates()
        self._share_updates()
        return updates

    def tell(self, component: str, control: Control, index: int = 0) -> None:
        """Put a control message into a spout executor's inbox."""
        self.executor(component, index).inbox.put_news(control)

    def tell_verdicts(self, verdicts: Verdicts, reasons: Mapping[int, bytes] = NO_REASONS) -> None:
        """Hand the verdicts of a ledger to the spout tasks that they are addressed to."""
        for kind in VerdictKind:
            for task, roots in getattr(verdicts, kind.value).items():
                self._by_task[task].inbox.put_news(TreeVerdict(task, kind, roots, reasons))

    def _deliver(self, origin: Origin, target: int, rows: Rows, tasks: frozenset[int]) -> None:
        for task, part in [(target, rows)] if rows.targets is None else rows.by_target():
            for source, few in [(origin.task, part)] if part.sources is None else part.by_source():
                self.delivered.append((origin.of_task(source), task, list(few)))
        put_local({task: self._by_task[task].inbox for task in tasks}, Batch(origin, target, rows), tasks)

    def _share_updates(self) -> None:
        for executor in self.executors:
            for task in executor.tasks:
                task.use(self.updates)


def xors(updates: AckUpdates) -> dict[int, int]:
    """What the acks of each root come to, without those that an init has taken in."""
    sums: dict[int, int] = {}
    for root, value in zip(*updates.acks.columns(), strict=True):
        sums[root] = sums.get(root, 0) ^ value
    return sums


def inits(updates: AckUpdates) -> list[tuple[int, int, int]]:
    """The new trees: root, value, task."""
    return list(zip(*updates.inits.columns(), updates.init_tasks, strict=True))


def apply(ledger: Ledger, updates: AckUpdates, now_s: float = 0.0) -> Verdicts:
    """Tell a ledger one flush's updates."""
    return ledger.apply(*updates.columns(), now_s)
