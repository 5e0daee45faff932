"""LocalCluster: topologies in this process, on threads, without a network or ZooKeeper."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from tupletree import config
from tupletree._blobs import uses_of
from tupletree._checkpoints.settings import check_settings
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._stores import memory_nodes
from tupletree.config import TopologyConf
from tupletree.errors import NameInUseError, NotFoundError, TopologyError, UsageError
from tupletree.testing.counts import ComponentCounts, progress_lines
from tupletree.testing.local_blobs import AnyPath, LocalBlobs
from tupletree.testing.local_topology import STEP_S, LocalTopology
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology, check_topology_name
from tupletree.worker.blobs import BlobPaths
from tupletree.worker.core.task import Observer
from tupletree.worker.reporting.metrics import text_of_tasks

T = TypeVar("T")

HOUSEKEEPING_S = 0.05


class SimulatedClock:
    """A clock that only moves when set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class LocalCluster:
    """Runs topologies in this process: for development and for tests.

    With ``simulated_time=True``, message timeouts and tick tuples follow a clock that only ``advance`` moves, so that a
    thirty-second timeout is tested in milliseconds. As a context manager, kills all topologies on exit.

    Differences from a real cluster: no worker can crash, so an exception of a component ends its topology and is raised
    by the next ``wait_quiet`` or ``wait_until``; the progress of transactional topologies is kept in memory until
    ``close``, unless ``transactional.zookeeper.servers`` is set. Every tuple is encoded and decoded, as between the
    workers of a cluster; ``topology.testing.always.try.serialize: false`` passes values by reference instead.
    ``blobs`` are files of this machine, by key, for topologies that name them in ``topology.blobstore.map``; components
    open these files themselves, no copies.
    """

    def __init__(self, simulated_time: bool = False, blobs: Mapping[str, AnyPath] | None = None) -> None:
        self._blobs = LocalBlobs(blobs or {})
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
        conf: TopologyConf | Mapping[str, Any] | None = None,
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
        own = {**topology.conf, **(conf or {})}
        config.validate(own)
        conf = {**config.defaults(), "topology.testing.always.try.serialize": True, **own}
        if conf["transactional.zookeeper.servers"] is None:
            conf |= {"zookeeper.servers": [], "transactional.zookeeper.root": self._progress_root}
        if CHECKPOINT_SPOUT in topology.components:
            check_settings(conf)
        paths = BlobPaths(self._blobs.paths(name, uses_of(conf)))
        local = LocalTopology(name, topology, conf, self._clock, observer=observer, blobs=paths)
        self._topologies[name] = local
        try:
            local.start(is_active=not inactive)
        except TopologyError:  # a hook of the worker cannot start
            del self._topologies[name]
            raise
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

    def update_blob(self, key: str, path: AnyPath) -> None:
        """Let a blob be another file, and call ``blob_updated`` of the components whose topologies name it.

        That holds with ``workerRestart``, too: there is no worker to restart.

        Raises:
            UsageError: the key is invalid, or there is no such file.
        """
        self._blobs.put(key, path)
        for name, topology in list(self._topologies.items()):
            uses = [use for use in uses_of(topology.conf) if use.key == key]
            topology.tell_of_blobs(self._blobs.paths(name, uses))

    def errors(self, name: str) -> list[tuple[str, BaseException]]:
        """Return the errors reported by components, as (component id, exception), oldest first."""
        return list(self._find(name).errors)

    def state(self, name: str, component: str) -> dict[Any, Any]:
        """Return the keys and values of a stateful component, of all its tasks, committed or not.

        Raises:
            NotFoundError: no topology with that name is running, or it has no stateful component of that name.
        """
        topology = self._find(name)
        if component not in topology.stateful:
            known = ", ".join(topology.stateful) or "none"
            raise NotFoundError(f"topology {name!r} has no stateful component {component!r}; it has {known}")
        return topology.state(component)

    def states(self, name: str) -> dict[str, dict[Any, Any]]:
        """Return the keys and values of every stateful component, as ``state`` does for one."""
        topology = self._find(name)
        return {component: topology.state(component) for component in topology.stateful}

    def statuses(self, name: str) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the statuses that tasks have registered (``context.register_status``), by component and task id."""
        return self._find(name).statuses

    def executions(self, name: str) -> dict[str, tuple[int, int]]:
        """Return, for each bolt that acks by hand, how many tuples it executed, and how many it acked or failed."""
        return self._find(name).executions

    def counts(self, name: str) -> dict[str, ComponentCounts]:
        """Return what each component has done, by component id. The numbers lag behind by what is being executed."""
        return self._find(name).counts

    def is_at_end(self, name: str) -> bool:
        """True if every spout is a ReliableSpout that has read its source to the end, with all messages processed."""
        return self._find(name).is_at_end

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
            TaskFailedError: a component raised.
        """
        self.wait_until(lambda: all(topology.is_quiet(timeout) for topology in self._topologies.values()), timeout)

    def wait_until(self, predicate: Callable[[], T], timeout: float = 10) -> T:
        """Wait until ``predicate()`` is true, and return its result.

        Raises:
            TimeoutError: the predicate is not true after ``timeout`` seconds (of real time). Its notes say what each
                component has done by then, and which errors were reported.
            TaskFailedError: a component raised.
        """

        def holds() -> T:
            for topology in list(self._topologies.values()):
                topology.raise_failure()
            return predicate()

        try:
            return wait_until(holds, timeout, what=getattr(predicate, "__qualname__", repr(predicate)))
        except TimeoutError as error:
            for name, topology in self._topologies.items():
                error.add_note("\n".join(progress_lines(name, topology.counts, topology.statuses, topology.errors)))
            raise

    def finish(self, name: str, timeout: float = 10) -> None:
        """After all sources have come to their end: emit what waits for time, as windows of streams do, and process it.

        Returns when all is processed, and a checkpoint has it, if there are states.

        Raises:
            TimeoutError: one of them, or the checkpoint, has taken more than ``timeout`` seconds (of real time).
            TaskFailedError: a component raised.
        """
        topology = self._find(name)
        has_ended = False
        for _ in topology.end_input():
            self.wait_quiet(timeout)
            has_ended = True
        if not has_ended:
            return
        before = topology.checkpoint
        if before is None:
            return

        def is_saved() -> bool:
            topology.hurry(is_final=True)
            return (topology.checkpoint or 0) >= before + 2

        self.wait_until(is_saved, timeout)

    def hurry(self, name: str) -> None:
        """Once every spout has read its source to the end (ReliableSpout), do now what waits for an interval.

        The next checkpoint begins, if there are states and none is in progress, and bolts that hold tuples until a tick
        get one, as those do that write in batches. A run calls this again and again when only its end is waited for.

        Raises:
            NotFoundError: no topology has this name.
        """
        self._find(name).hurry()

    def metrics(self, name: str) -> str:
        """Return the topology's metrics in the format of ``/metrics``. Raises NotFoundError if none has this name."""
        return text_of_tasks(self._find(name).engine, name)

    def close(self) -> None:
        """Kill every topology."""
        for name in list(self._topologies):
            self.kill(name)
        self._is_closing.set()
        self._housekeeper.join()
        self._blobs.close()
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
