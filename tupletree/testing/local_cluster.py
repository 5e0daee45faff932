"""LocalCluster: topologies in this process, on threads, without a network or ZooKeeper.

A LocalCluster combines a worker's real engine and an acker's real ledger, without the layers normally between them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tupletree import config
from tupletree._checkpoints.settings import check_settings
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._stores import memory_nodes
from tupletree._wire.fail_reasons import WaitingReasons
from tupletree.acker.ledger import Ledger
from tupletree.combiner import CombinerBolt
from tupletree.errors import NameInUseError, NotFoundError, UsageError
from tupletree.outputs import CHECKPOINT_STREAM, DEFAULT_STREAM
from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing.feeder import FeederSpout
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology, check_topology_name
from tupletree.v1.topology_pb2 import ComponentKind
from tupletree.windows import WindowedBolt
from tupletree.worker.builder import Plan
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates, split
from tupletree.worker.core.task import Environment, Observer, TaskFailure
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.execution.executor import Executor
from tupletree.worker.reporting.metrics import text_of_tasks

T = TypeVar("T")

log = logging.getLogger(__name__)

HOUSEKEEPING_S = 0.05
STEP_S = 1.0
STOP_TIMEOUT_S = 5.0


class SimulatedClock:
    """A clock that only moves when set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class LocalTopology:
    """One topology in this process: an engine, and the ledgers of its shards."""

    def __init__(
        self, name: str, topology: Topology, conf: Mapping[str, Any], clock: Callable[[], float],
        observer: Observer | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.errors: list[tuple[str, BaseException]] = []
        self.failure: TaskFailure | None = None
        self._clock = clock
        self._lock = threading.Lock()
        shards = conf["topology.acker.executors"]
        self._ledgers = [Ledger() for _ in range(conf["topology.workers"] if shards is None else shards)]
        self._reasons = WaitingReasons()
        self._timeout_s = conf["topology.message.timeout.secs"]
        self._next_rotation_s = clock() + self._timeout_s
        self._trees_expire = conf["topology.enable.message.timeouts"]
        spec = topology.spec()
        tasks = tasks_of(spec, conf)
        executors = executors_of(tasks, executor_counts(spec, conf))
        environment = Environment(
            clock=clock,
            getrandbits=random.Random().getrandbits,
            report_error=self._report_error,
            is_tracked=bool(self._ledgers),
            log_emit=_log_emit,
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
        )
        self.engine = Engine(plan, executors, self, self._on_blocking)
        self.shortest_tick_s = min(
            (task.context.conf["topology.tick.tuple.freq.secs"] or STEP_S for executor in self.engine.executors
             for task in executor.tasks), default=STEP_S,
        )  # fmt: skip

    def start(self, is_active: bool) -> None:
        """Start the run loops and, if ``is_active``, the spouts."""
        self.engine.start()
        self.engine.set_active(is_active)

    def send(self, batch: object) -> None:
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

    def failed(self, failure: TaskFailure) -> None:
        """End the topology because a component raised. Called on run loop threads, which cannot join each other."""
        self.failure = self.failure or failure
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
        """True if every run loop has nothing to do for two more rounds."""
        busy = sum(loop.busy_turns for loop in self.engine.loops)
        turns = self.turns_now()
        self.wait_turned(2, turns, timeout_s)
        return (
            busy == sum(loop.busy_turns for loop in self.engine.loops)
            and not any(loop.updates for loop in self.engine.loops)
            and not any(
                executor.inbox or executor.has_buffered or executor.has_held_back for executor in self.engine.executors
            )
            and not any(task.context.outstanding() for executor in self.engine.executors for task in executor.tasks)
        )

    def stop(self) -> None:
        """Close the components and end the threads."""
        self.engine.stop(STOP_TIMEOUT_S)


class LocalCluster:
    """Runs topologies in this process: for development and for tests.

    With ``simulated_time=True``, message timeouts and tick tuples follow a clock that only ``advance`` moves, so that a
    thirty-second timeout is tested in milliseconds. As a context manager, kills all topologies on exit.

    Differences from a real cluster: no worker can crash, so an exception of a component ends its topology and is raised
    by the next ``wait_quiet`` or ``wait_until``; values are passed by reference unless
    ``topology.testing.always.try.serialize`` is set; the progress of transactional topologies is kept in memory until
    ``close``, unless ``transactional.zookeeper.servers`` is set.
    """

    def __init__(self, simulated_time: bool = False) -> None:
        self._simulated = SimulatedClock() if simulated_time else None
        self._clock: Callable[[], float] = self._simulated or time.monotonic
        self._topologies: dict[str, LocalTopology] = {}
        self._progress_root = f"/local-{uuid.uuid4().hex}"  # replaces ZooKeeper
        memory_nodes.register(self._progress_root)
        self._is_closing = threading.Event()
        self._housekeeper = threading.Thread(target=self._keep_house, name="local-cluster", daemon=True)
        self._housekeeper.start()

    def submit(
        self,
        name: str,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        *,
        inactive: bool = False,
        observer: Observer | None = None,
    ) -> str:
        """Start a topology and return its id, which equals its name.

        ``inactive``: open no spout until ``activate``.
        ``observer``: called as (component, stream, values) for every emitted tuple, on the emitting thread.

        Raises:
            NameInUseError: a topology with that name is already running.
            ConfigError, TopologyError: the topology or its configuration is faulty.
        """
        check_topology_name(name)
        if name in self._topologies:
            raise NameInUseError(f"a topology named {name!r} is already running")
        if not isinstance(topology, Topology):
            raise UsageError(f"submit takes a Topology, not {type(topology).__name__}: call create_topology()")
        own = dict(conf or {})
        config.validate(own)
        conf = {**config.defaults(), **own}
        if conf["transactional.zookeeper.servers"] is None:
            conf |= {"zookeeper.servers": [], "transactional.zookeeper.root": self._progress_root}
        if CHECKPOINT_SPOUT in topology.components:
            check_settings(conf)
        self._topologies[name] = LocalTopology(name, topology, conf, self._clock, observer=observer)
        self._topologies[name].start(is_active=not inactive)
        return name

    def kill(self, name: str) -> None:
        """Stop a topology at once. Raises NotFoundError if no topology with that name is running."""
        self._find(name).stop()
        del self._topologies[name]

    def activate(self, name: str) -> None:
        """Let the topology's spouts emit."""
        self._find(name).engine.set_active(True)

    def deactivate(self, name: str) -> None:
        """Stop the topology's spouts from emitting. Tuples in flight are still processed."""
        self._find(name).engine.set_active(False)

    def errors(self, name: str) -> list[tuple[str, BaseException]]:
        """Return the errors reported by components, as (component id, exception), oldest first."""
        return list(self._find(name).errors)

    def advance(self, seconds: float) -> None:
        """Move simulated time forward, in steps short enough that no timer is skipped.

        Raises:
            UsageError: the cluster does not run in simulated time.
        """
        if self._simulated is None:
            raise UsageError("advance needs LocalCluster(simulated_time=True)")
        end_s = self._simulated.now_s + seconds
        step_s = min([STEP_S, *(topology.shortest_tick_s for topology in self._topologies.values())])
        while self._simulated.now_s < end_s:
            self._simulated.now_s = min(end_s, self._simulated.now_s + step_s)
            for topology in self._topologies.values():
                topology.keep_house()
                topology.wait_turned(2, topology.turns_now())

    def wait_quiet(self, timeout: float = 10) -> None:
        """Wait until no tuple is in flight and no spout has anything to emit.

        Raises:
            TimeoutError: the cluster is not quiet after ``timeout`` seconds (of real time).
            TaskFailure: a component raised.
        """
        self.wait_until(lambda: all(topology.is_quiet(timeout) for topology in self._topologies.values()), timeout)

    def wait_until(self, predicate: Callable[[], T], timeout: float = 10) -> T:
        """Wait until ``predicate()`` is true, and return its result.

        Raises:
            TimeoutError: the predicate is not true after ``timeout`` seconds (of real time).
            TaskFailure: a component raised.
        """

        def holds() -> T:
            for topology in list(self._topologies.values()):
                topology.raise_failure()
            return predicate()

        return wait_until(holds, timeout)

    def metrics(self, name: str) -> str:
        """Return the topology's metrics in the format of ``/metrics``. Raises NotFoundError if it is not running."""
        return text_of_tasks(self._find(name).engine, name)

    def close(self) -> None:
        """Kill every topology."""
        for name in list(self._topologies):
            self.kill(name)
        self._is_closing.set()
        self._housekeeper.join()
        memory_nodes.drop(self._progress_root)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, name: str) -> LocalTopology:
        if name not in self._topologies:
            raise NotFoundError(f"no topology named {name!r} is running")
        return self._topologies[name]

    def _keep_house(self) -> None:
        while not self._is_closing.wait(HOUSEKEEPING_S):
            for topology in list(self._topologies.values()):
                topology.keep_house()


def _log_emit(component: str, stream: str, values: Sequence[Any]) -> None:
    log.info("%s emitted %r on %s", component, values, stream)


def complete_topology(
    topology: Topology,
    mock_sources: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    conf: Mapping[str, Any] | None = None,
    timeout: float = 30,
) -> dict[str, list[list[Any]]]:
    """Run a topology on fixed input until it is quiet, and return the tuples emitted by each component.

    ``mock_sources``: for each spout id, the rows to emit instead of the spout's own tuples. Each row is tracked and
    goes to the spout's default stream, or else to its first declared stream. Bolts that need ticks get them at the end.

    Returns, for each component with outputs, the values of every emitted tuple, on all streams. With more than one
    task, the order is undefined.

    Raises:
        UsageError: a spout has no mock source.
        TaskFailure: a component raised.
        TimeoutError: the topology is not quiet after ``timeout`` seconds.
    """
    sources = mock_sources or {}
    feeders = {}
    streams = {}
    for component_id, definition in topology.components.items():
        if definition.kind == ComponentKind.COMPONENT_KIND_SPOUT and component_id != CHECKPOINT_SPOUT:
            if component_id not in sources:
                raise UsageError(f"complete_topology needs mock_sources for spout {component_id!r}")
            feeders[component_id] = FeederSpout([])  # replacing keeps the streams of the original spout
            streams[component_id] = next(iter(sorted(definition.outputs, key=lambda id: id != DEFAULT_STREAM)), "")
    for component_id, rows in sources.items():
        if component_id not in feeders:
            raise UsageError(f"mock_sources names {component_id!r}, which is not a spout of the topology")
        for number, row in enumerate(rows):
            feeders[component_id].feed(row, number, streams[component_id])
    emitted: dict[str, list[list[Any]]] = {
        component_id: []
        for component_id, definition in topology.components.items()
        if definition.outputs.keys() - {CHECKPOINT_STREAM}
    }
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit(
            "completed",
            topology.replacing(feeders),
            conf,
            observer=lambda component, stream, values: emitted[component].append(list(values)),
        )
        cluster.wait_until(lambda: all(feeder.is_drained for feeder in feeders.values()), timeout)
        cluster.wait_quiet(timeout)
        _tick(cluster, topology, conf or {}, timeout)
    return emitted


def _tick(cluster: LocalCluster, topology: Topology, conf: Mapping[str, Any], timeout: float) -> None:
    """Let one tick interval pass; one per combiner or windowed bolt if there are any, as they can be chained."""
    name = "topology.tick.tuple.freq.secs"
    ticks = [conf.get(name), *(definition.conf.get(name) for definition in topology.components.values())]
    longest_s = max((tick for tick in ticks if tick), default=0)
    holding = sum(isinstance(one.component, CombinerBolt | WindowedBolt) for one in topology.components.values())
    for _ in range(max(1, holding) if longest_s else 0):
        cluster.advance(longest_s)
        cluster.wait_quiet(timeout)
