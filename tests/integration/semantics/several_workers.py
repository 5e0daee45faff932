"""Several workers' engines in one process: what leaves one is encoded and received by another, with no network between.

Congestion is announced to the others as the real streams do it, and the ledgers are shared.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tupletree import Topology, config
from tupletree.acker.ledger import Ledger
from tupletree.errors import TaskFailedError
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates, split
from tupletree.worker.core.batches import EncodedBatch
from tupletree.worker.core.batches import tasks_of as targets_of
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.plan import Plan


class _Outside:
    """What one engine is surrounded by: the others, and the ledgers."""

    def __init__(self, workers: SeveralWorkers) -> None:
        self._workers = workers
        self.engine: Engine | None = None

    def send(self, batch: EncodedBatch, tasks: frozenset[int]) -> None:
        assert self.engine is not None
        assert targets_of(batch) <= tasks
        self._workers.transfer(batch, self.engine)

    def post(self, updates: AckUpdates) -> None:
        self._workers.post(updates)

    def failed(self, failure: TaskFailedError) -> None:
        self._workers.failures.append(failure)

    def congestion_changed(self) -> None:
        self._workers.announce()


class SeveralWorkers:
    """A topology whose executors are dealt out to ``count`` engines. A context manager.

    Attributes:
        now_s: the simulated time of all of them; the test moves it.
        sent: batches that went from one engine to another.
    """

    def __init__(self, topology: Topology, conf: Mapping[str, Any], count: int, seed: int) -> None:
        merged = {**config.defaults(), **conf}
        spec = topology.spec()
        tasks = tasks_of(spec, merged)
        executors = executors_of(tasks, executor_counts(spec, merged))
        rng = random.Random(seed)
        rng.shuffle(executors)
        self.now_s = 0.0
        self.sent = 0
        self.failures: list[TaskFailedError] = []
        self._ledgers = [Ledger() for _ in range(merged["topology.acker.executors"])]
        self._lock = threading.Lock()
        self._announcing = threading.Lock()
        environment = Environment(
            clock=lambda: self.now_s,
            getrandbits=random.Random(rng.random()).getrandbits,
            report_error=lambda component, task, error: self.failures.append(TaskFailedError(component, task, error)),
            is_tracked=bool(self._ledgers),
            log_emit=lambda component, stream, values: None,
        )
        self.engines: dict[str, Engine] = {}
        self._engine_of: dict[int, Engine] = {}
        for number in range(count):
            share = executors[number::count]
            # Some workers know where the tasks are, others have to divide their batches.
            places = (
                {task: at for at in range(count) for task in local_tasks(executors[at::count])} if number % 2 else {}
            )
            seed = rng.getrandbits(32)
            plan = Plan("t", spec, merged, tasks, local_tasks(share), environment, seed, places=places)
            name = f"worker {number}"
            outside = _Outside(self)
            outside.engine = self.engines[name] = Engine(plan, sorted(share), outside, lambda executor: None)
            self._engine_of |= dict.fromkeys(local_tasks(share), self.engines[name])

    def __enter__(self) -> SeveralWorkers:
        for engine in self.engines.values():
            engine.start()
            engine.set_active(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for engine in self.engines.values():
            engine.stop(10)

    def transfer(self, batch: EncodedBatch, sender: Engine) -> None:
        """Hand a batch to the engine of its targets. Run loop threads."""
        self.sent += 1
        engines = {self._engine_of[task] for task in targets_of(batch)}
        parts = [(batch, targets_of(batch))] if len(engines) == 1 else sender.split(batch)
        for part, tasks in parts:
            self._engine_of[min(tasks)].receive(EncodedBatch.from_bytes(part.to_bytes()))

    def announce(self) -> None:
        """Tell every engine which tasks of the others are congested. Any thread; who finds another at it leaves it to
        that one, or to ``look_after``."""
        if self._announcing.acquire(blocking=False):
            try:
                self._announce_all()
            finally:
                self._announcing.release()

    def _announce_all(self) -> None:
        for name, engine in self.engines.items():
            for other in self.engines.values():
                if other is not engine:
                    other.gate.set(name, engine.congested_tasks)

    def post(self, updates: AckUpdates) -> None:
        """Apply updates and hand the verdicts to whoever runs the spout task. Run loop threads."""
        with self._lock:
            for shard, part in split(updates, len(self._ledgers)).items() if self._ledgers else ():
                verdicts = self._ledgers[shard].apply(*part.columns(), self.now_s)
                for task, roots in verdicts.acked.items():
                    self._engine_of[task].notify_task(task, TreeVerdict(task, VerdictKind.ACKED, roots))
                for task, roots in verdicts.failed.items():
                    self._engine_of[task].notify_task(task, TreeVerdict(task, VerdictKind.FAILED, roots))

    def look_after(self) -> None:
        """What a worker's asyncio thread does every so often, to be called often."""
        with self._announcing:
            self._announce_all()
        for engine in self.engines.values():
            engine.run_watchdog()
            engine.wake()
