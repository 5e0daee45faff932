"""The context of a task: its place in the topology, its configuration, and the metrics and status that it registers."""

from __future__ import annotations  # pure

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tupletree._source_progress import SourceProgress
from tupletree._wire.latency import BOUNDS_S
from tupletree.errors import UsageError
from tupletree.metrics import MAX_METRICS, Counter, Gauge, Histogram, Kind, Registered, Snapshot, Timer, check_name

T = TypeVar("T")
Metric = Callable[[], float]
USER_PREFIX = "tupletree_user_"
Status = Callable[[], Mapping[str, Any]]
Share = Callable[[str, Callable[[], Any], Callable[[Any], object] | None], Any]
"""Returns the object of a name, made by a function if it is not there yet; see ``TopologyContext.shared``."""


FindBlob = Callable[[str], str]
"""Returns the path of the newest version of a blob, by its local name."""


class Hook(Protocol):
    """The part of a TaskHook (tupletree/hooks.py) by which contexts know one."""

    def cleanup(self) -> None:
        """Called last."""


class TopologyContext:
    """A task's view of itself and of its topology.

    Attributes:
        task_id: this task's id, unique in the topology; ids start at 1.
        task_index: this task's position among the tasks of its component, from 0.
        component_id: the component this task belongs to.
        sources: the grouping name, in lower case, of each (component, stream) this task subscribes to.
        targets: for each output stream, the subscribing components and their grouping names.
        source_fields: the fields of each (component, stream) this task subscribes to.
        conf: the topology's configuration, overridden by the component's own.
        topology_id: the id that nimbus assigned to the topology.
        call_soon: queues a function to be called on this task's own thread. Available from ``open`` or ``prepare`` on,
            and the only part of a component that may be used from any thread: a component with its own threads uses
            ``call_soon`` to emit, ack and fail. An exception from the function ends the worker.
        call_first: as ``call_soon``, but the function is called before the tuples that wait. For bolts.
        is_full: returns True while the task of a bolt with ``can_be_full`` is to be given no further tuple. A bolt may
            set it. Calls by ``call_first`` still come; ticks wait.
        outstanding: returns the number of tuples that the component works on elsewhere than on this task's thread. A
            component with its own threads may set it: LocalCluster waits for these tuples too.
        clock: returns seconds since an arbitrary moment; simulated seconds in a LocalCluster with simulated time.
        unix_clock: returns the Unix time of the machine in seconds; the same as ``clock`` in simulated time.
    """

    def __init__(
        self,
        *,
        topology_id: str,
        component_id: str,
        task_id: int,
        tasks: Mapping[str, Sequence[int]],
        sources: Mapping[tuple[str, str], str],
        targets: Mapping[str, Mapping[str, str]],
        conf: Mapping[str, Any],
        source_fields: Mapping[tuple[str, str], Sequence[str]] | None = None,
        share: Share | None = None,
        find_blob: FindBlob | None = None,
    ) -> None:
        self.topology_id = topology_id
        self.component_id = component_id
        self.task_id = task_id
        self.task_index = tasks[component_id].index(task_id)
        self.sources = dict(sources)
        self.targets = {stream: dict(components) for stream, components in targets.items()}
        self.source_fields = source_fields or {}
        self.conf = dict(conf)
        self.metrics: dict[str, Registered] = {}
        self.status: Status | None = None
        self.call_soon: Callable[[Callable[[], None]], None] = _no_thread
        self.call_first: Callable[[Callable[[], None]], None] = _no_thread
        self.is_full: Callable[[], bool] = _never
        self.outstanding: Callable[[], int] = _nothing
        self.clock: Callable[[], float] = _no_clock
        self.unix_clock: Callable[[], float] = _no_clock
        self.polled_s = math.inf  # for spouts: when the present row of ``next_tuple`` calls began, by ``clock``
        self.source_progress: SourceProgress | None = None  # of a spout whose chain sends its progress in event time
        self.begin_hooks: Callable[[], None] = _no_hooks  # prepares the task hooks of the configuration
        self.end_hooks: Callable[[], None] = _no_hooks
        self._add_hook: Callable[[Hook], None] = _ignore_hook
        self._share = share or _alone()
        self._find_blob = find_blob or _no_blobs
        self._tasks = tasks  # shared by all contexts: one copy per context would need quadratic memory

    def renewed(self) -> TopologyContext:
        """Return this context for another copy of the component, without registered metrics and status."""
        other = copy.copy(self)
        other.metrics, other.status = {}, None
        other.call_soon = other.call_first = _no_thread
        other.is_full = _never
        other.outstanding = _nothing
        return other

    @property
    def components(self) -> Mapping[str, Sequence[int]]:
        """The task ids of every component of the topology, ascending."""
        return self._tasks

    def component_tasks(self, component_id: str) -> list[int]:
        """Return the task ids of a component, ascending.

        Raises:
            KeyError: there is no component with that id.
        """
        return list(self._tasks[component_id])

    def shared(self, name: str, make: Callable[[], T], close: Callable[[T], object] | None = None) -> T:
        """Return an object that all tasks in this worker share. The first task that asks makes it; others wait for it.

            def setup(self):
                self.model = self.context.shared("model", lambda: load("model.bin"))

        ``name``: of all components of the topology; whoever asks first decides what the object is. ``close``: called
        with the object at an orderly shutdown of the worker, after the components were torn down; not guaranteed. The
        last object made is closed first. A component that restarts after a rollback gets the same object.

        Tasks of one worker can run on several threads: the object must allow that, or be changed under a lock of its
        own. Ask in ``setup``; in ``execute``, a long ``make`` holds up the worker. May be called from any thread.

        Raises:
            UsageError: the name is not a text, or ``make`` asks for the same object.
            Exception: whatever ``make`` raises; the next task that asks tries again.
        """
        found: T = self._share(name, make, close)
        return found

    def blob(self, name: str) -> str:
        """Return the path of a blob on this machine, by its local name in ``topology.blobstore.map``.

            def setup(self):
                self.model = load(self.context.blob("model.bin"))

        The path leads to the newest version that is complete here: a file, or a directory if the blob is to be
        uncompressed. What it leads to never changes; a newer version has another path, which ``blob_updated`` tells.
        An old version is removed some minutes after the worker has a newer one, so ask again instead of keeping the
        path. May be called from any thread.

        Raises:
            UsageError: the topology names no blob with that local name.
        """
        return self._find_blob(name)

    def add_task_hook(self, hook: Hook) -> None:
        """Let a hook see what this task does from now on. Its class extends ``tupletree.hooks.TaskHook``.

        Call in ``setup``, ``open`` or ``prepare``. The hook's ``prepare`` is called at once. Outside a worker, as in
        ``run_bolt``, the hook is ignored. docs/guides/hooks.md.

        Raises:
            UsageError: the object is no TaskHook.
        """
        self._add_hook(hook)

    def attach_hooks(self, begin: Callable[[], None], add: Callable[[Hook], None], end: Callable[[], None]) -> None:
        """Set how hooks begin, are added and end. Called by the worker."""
        self.begin_hooks, self._add_hook, self.end_hooks = begin, add, end

    def register_metric(self, name: str, read: Metric, help: str = "") -> None:
        """Expose a value of this task on the worker's ``/metrics`` as the gauge ``tupletree_user_<name>``.

        ``read`` is called at each scrape, from another thread: it must be quick and must not change anything. If
        ``read`` raises, the metric is missing from that scrape. The other ``register_…`` methods are for values that
        the component updates itself; see docs/guides/metrics.md.

        Raises:
            ValueError: the name is invalid, the task already has a metric with that name, or already has 100 metrics.
        """
        self._register(name, "gauge", help, read)

    def register_counter(self, name: str, help: str = "") -> Counter:
        """Register a counter: ``tupletree_user_<name>_total``. Raises ValueError as ``register_metric``."""
        counter = Counter()
        self._register(name, "counter", help, lambda: counter.value)
        return counter

    def register_gauge(self, name: str, help: str = "") -> Gauge:
        """Register a gauge that the task sets: ``tupletree_user_<name>``. Raises ValueError as ``register_metric``."""
        gauge = Gauge()
        self._register(name, "gauge", help, lambda: gauge.value)
        return gauge

    def register_histogram(self, name: str, help: str = "", bounds: Sequence[float] = BOUNDS_S) -> Histogram:
        """Register a histogram: ``tupletree_user_<name>``. The default buckets suit latencies in seconds.

        Raises:
            ValueError: as ``register_metric``; or the bounds do not ascend, or their number is not from 1 to 50.
        """
        histogram = Histogram(bounds)
        self._register(name, "histogram", help, histogram.snapshot)
        return histogram

    def register_timer(self, name: str, help: str = "", bounds: Sequence[float] = BOUNDS_S) -> Timer:
        """Register a histogram of durations: ``tupletree_user_<name>_seconds``.

        Raises:
            ValueError: as ``register_histogram``.
        """
        timer = Timer(self.clock, bounds)
        self._register(name, "histogram", help, timer.snapshot, unit="_seconds")
        return timer

    def _register(self, name: str, kind: Kind, help: str, read: Callable[[], float | Snapshot], unit: str = "") -> None:
        owner = f"task {self.task_id} of {self.component_id!r}"
        shown = USER_PREFIX + check_name(name, owner).removesuffix(unit) + unit
        if any(one.name == shown for one in self.metrics.values()):
            raise ValueError(f"{owner} already has a metric {name!r}")
        if sum(one.name.startswith(USER_PREFIX) for one in self.metrics.values()) >= MAX_METRICS:
            raise ValueError(f"{owner} has {MAX_METRICS} metrics already, the maximum; {name!r} cannot be registered")
        self.metrics[name] = Registered(shown, kind, help or f"Registered by components as {name}.", read)

    def register_own(self, name: str, kind: Kind, help: str, read: Callable[[], float | Snapshot]) -> None:
        """Register a metric of Tupletree's own components: ``tupletree_<name>``, exempt from the limit of 100."""
        self.metrics[f"tupletree_{name}"] = Registered(f"tupletree_{name}", kind, help, read)

    def register_status(self, read: Status) -> None:
        """Show this task's status in ``tupletree describe`` and ``monitor``: a small JSON-serializable mapping.

        ``read`` is called about once a second, from another thread: it must be quick and must not change anything.
        """
        self.status = read


def _alone() -> Share:
    """Return how a task outside a worker shares: with itself. Nothing is closed."""
    kept: dict[str, Any] = {}

    def share(name: str, make: Callable[[], Any], close: Callable[[Any], object] | None) -> Any:
        if name not in kept:
            kept[name] = make()
        return kept[name]

    return share


def _no_blobs(name: str) -> str:
    raise UsageError(f"there is no blob with the local name {name!r} outside of a worker")


def _no_hooks() -> None:
    pass


def _ignore_hook(hook: Hook) -> None:
    pass


def _never() -> bool:
    return False


def _nothing() -> int:
    return 0


def _no_clock() -> float:
    raise RuntimeError("the clock is available only in open or prepare and later")


def _no_thread(function: Callable[[], None]) -> None:
    raise RuntimeError("call_soon is available only in open or prepare and later")
