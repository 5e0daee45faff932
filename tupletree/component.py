"""Base classes of user code: spouts and bolts.

A component object is built by the user (``Count(10)``), copied to each of its tasks by cloudpickle, and then driven by
one thread at a time: a component needs no locks. ``self.collector`` and ``self.context`` are set before
``open`` or ``prepare`` is called.

Output streams are declared on the class: ``outputs = ["word"]`` for the default stream, ``outputs = {"default":
["word"], "errors": ["line", "reason"]}`` for several, or the method ``declare_output_fields(declarer)``.

``blocking = True`` gives each executor of the component its own thread. Set it on a component that sleeps or waits for
the network inside ``execute`` or ``next_tuple``. All other components share one run loop per worker, which is faster.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tupletree._wire.latency import BOUNDS_S
from tupletree.collector import BasicCollector, BoltCollector, SpoutCollector
from tupletree.metrics import MAX_METRICS, Counter, Gauge, Histogram, Kind, Registered, Snapshot, Timer, check_name
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from tupletree.state.contract import KeyValueState

__all__ = [
    "BasicBolt",
    "BasicCollector",
    "Bolt",
    "BoltCollector",
    "Component",
    "Metric",
    "Outputs",
    "Spout",
    "SpoutCollector",
    "StatefulBolt",
    "Status",
    "TopologyContext",
]

Outputs = Sequence[str] | Mapping[str, Any]
Metric = Callable[[], float]
USER_PREFIX = "tupletree_user_"
Status = Callable[[], Mapping[str, Any]]


class TopologyContext:
    """A task's view of itself and of its topology.

    Attributes:
        task_id: this task's id, unique in the topology; ids start at 1.
        task_index: its position among the tasks of its component, from 0.
        component_id: the component this task belongs to.
        sources: the grouping name, in lower case, of each (component, stream) this task subscribes to.
        targets: for each output stream, the subscribing components and their grouping names.
        conf: the topology's configuration, overridden by the component's own.
        topology_id: the id that nimbus assigned to the topology.
        call_soon: queues a function to be called on this task's own thread. Available from ``open`` or ``prepare`` on,
            and the only part of a component that may be used from any thread: a component with its own threads uses
            ``call_soon`` to emit, ack and fail. An exception from the function ends the worker.
        clock: returns seconds since an arbitrary moment; simulated seconds in a LocalCluster with simulated time.
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
    ) -> None:
        self.topology_id = topology_id
        self.component_id = component_id
        self.task_id = task_id
        self.task_index = tasks[component_id].index(task_id)
        self.sources = dict(sources)
        self.targets = {stream: dict(components) for stream, components in targets.items()}
        self.conf = dict(conf)
        self.metrics: dict[str, Registered] = {}
        self.status: Status | None = None
        self.call_soon: Callable[[Callable[[], None]], None] = _no_thread
        self.clock: Callable[[], float] = _no_clock
        self._tasks = tasks  # shared by all contexts: one copy per context would need quadratic memory

    def renewed(self) -> TopologyContext:
        """Return this context for another copy of the component, without registered metrics and status."""
        other = copy.copy(self)
        other.metrics, other.status = {}, None
        other.call_soon = _no_thread
        return other

    def component_tasks(self, component_id: str) -> list[int]:
        """Return the task ids of a component, ascending.

        Raises:
            KeyError: there is no component with that id.
        """
        return list(self._tasks[component_id])

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
            raise ValueError(f"{owner} has a metric {name!r} already")
        if sum(one.name.startswith(USER_PREFIX) for one in self.metrics.values()) >= MAX_METRICS:
            raise ValueError(f"{owner} has {MAX_METRICS} metrics already; {name!r} would be one too many")
        self.metrics[name] = Registered(shown, kind, help or f"Registered by components as {name}.", read)

    def register_own(self, name: str, kind: Kind, help: str, read: Callable[[], float | Snapshot]) -> None:
        """Register a metric of Tupletree's own components: ``tupletree_<name>``, exempt from the limit of 100."""
        self.metrics[f"tupletree_{name}"] = Registered(f"tupletree_{name}", kind, help, read)

    def register_status(self, read: Status) -> None:
        """Show this task's status in ``tupletree describe`` and ``monitor``: a small JSON-serializable mapping.

        ``read`` is called about once a second, from another thread: it must be quick and must not change anything.
        """
        self.status = read


def _no_clock() -> float:
    raise RuntimeError("the clock is there from open or prepare on")


def _no_thread(function: Callable[[], None]) -> None:
    raise RuntimeError("call_soon is there from open or prepare on")


class Component:
    """Common base of spouts and bolts."""

    outputs: ClassVar[Outputs] = ()
    blocking: bool = False
    context: TopologyContext

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare the output streams; by default those in ``outputs``. Called at build time."""
        declarer.declare_outputs(self.outputs)

    def component_configuration(self) -> Mapping[str, Any]:
        """Return the component's own configuration; ``add_configurations`` overrides it. Called at build time."""
        return {}


class Spout(Component):
    """A source of tuples.

    Order of calls on one thread: ``open``, then ``activate`` and ``deactivate`` as the topology's status changes,
    ``next_tuple`` while active, ``ack`` and ``fail`` at any time after ``open``; ``close`` at an orderly shutdown (not
    guaranteed: a killed worker does not call it).

    ``paces_itself = True`` disables ``topology.max.spout.pending`` for the spout: ``next_tuple`` is called however many
    trees are pending.
    """

    collector: SpoutCollector
    paces_itself: bool = False

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        """Called once, before any other method, when the topology first becomes active."""

    def close(self) -> None:
        """Called at an orderly shutdown."""

    def activate(self) -> None:
        """Called when a deactivated topology becomes active again."""

    def deactivate(self) -> None:
        """Called when the topology is deactivated. ``next_tuple`` is not called until reactivation."""

    def next_tuple(self) -> None:
        """Emit the tuples available now: any number, or none. Must not block unless ``blocking`` is True."""
        raise NotImplementedError

    def checkpoint_state(self) -> Any:
        """Return the position after everything emitted so far, for ``restore_state``: any value a tuple may carry.

        A spout that has both methods is *positioned*. In a stateful topology with
        ``topology.state.checkpoint.aligned: true`` its position is part of every checkpoint. After a failure, all bolt
        states and spout positions are restored from the same checkpoint (docs/guides/state.md).
        """
        raise NotImplementedError

    def restore_state(self, state: Any) -> None:
        """Go back to a position: emit again exactly what was emitted after ``checkpoint_state`` returned ``state``.

        Called after ``open`` if a checkpoint was committed before, and after every failure. If there is no checkpoint
        yet, ``state`` is the value that ``checkpoint_state`` returned right after ``open``. Message ids pending at
        the time of the call are no longer acked or failed.
        """
        raise NotImplementedError

    def ack(self, msg_id: Any) -> None:
        """Called when the tree of the tuple with that message id is complete."""

    def fail(self, msg_id: Any) -> None:
        """Called when the tree of the tuple with that message id failed or timed out. Replaying is up to the spout.

        A spout that does not override ``fail`` drops the tuple: the tuple is not processed again. Dropped tuples are
        counted (``tupletree_worker_unheard_trees_total``), and ``tupletree health`` reports them.
        """


def ignores_fails(component: Component) -> bool:
    """True if the component is a spout that does not override ``fail``."""
    return isinstance(component, Spout) and type(component).fail is Spout.fail and "fail" not in vars(component)


def is_positioned(component: Component) -> bool:
    """True if the component is a spout that overrides both ``checkpoint_state`` and ``restore_state``."""
    return (
        isinstance(component, Spout)
        and type(component).checkpoint_state is not Spout.checkpoint_state
        and type(component).restore_state is not Spout.restore_state
    )


class Bolt(Component):
    """A processing step that anchors and acks by hand.

    ``holds_tuples = True`` declares that tuples are acked long after ``execute``, as in a join or a bolt that writes in
    batches. Without this flag, ``tupletree health`` reports a bolt that has acked nothing so far as forgetting to ack.

    ``prepare`` is called once, then ``execute`` for each input; ``cleanup`` at an orderly shutdown (not guaranteed). An
    exception from ``execute`` ends the worker; the worker's tuples are replayed.
    """

    collector: BoltCollector
    holds_tuples: bool = False

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple) -> None:
        """Process one tuple; ack or fail it now or later."""
        raise NotImplementedError

    def execute_batch(self, tuples: list[Tuple]) -> None:
        """Process tuples that arrived together. If a bolt overrides this method, ``execute`` is not called.

        The tuples come in the order in which ``execute`` would get them, all from one source task and stream: at least
        one, at most ``topology.transfer.batch.size``. Batches are not delayed until they fill: on a slow stream, a
        batch holds one tuple. Ticks come in separate batches: check ``tuples[0].is_tick``.

        Ack or fail each tuple, now or later: ``self.collector.ack_many(tuples)``. An exception ends the worker, and the
        trees of all tuples that were not acked are replayed. A batch is never interrupted; the other components of the
        worker wait until the call returns.
        """
        for tup in tuples:
            self.execute(tup)

    def cleanup(self) -> None:
        """Called at an orderly shutdown."""


class StatefulBolt(Bolt):
    """A bolt with durable state. The states of the whole topology are saved together, about once a second.

    Order of calls on one thread: ``prepare``, ``init_state``, then ``execute`` for each input. Read and change the
    state in ``execute``, emit anchored, and ack once the state reflects the tuple. The spouts receive an ack when the
    checkpoint that contains the tuple's effect is committed (docs/guides/state.md: the guarantees of each mode).

    The hooks are called just before the framework acts on the state. An exception from a hook or from ``init_state``
    fails the checkpoint; the error is reported, and the topology recovers from the last checkpoint.
    """

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Called with the last committed state, before the first ``execute`` and after every rollback.

        Discard everything derived from the previous state. With aligned checkpoints, a rollback creates a fresh copy
        of the bolt and calls ``prepare`` before ``init_state``.
        """
        raise NotImplementedError

    def pre_prepare(self, txid: int) -> None:
        """Called before the state is saved for checkpoint ``txid``. Write buffered values to the state now."""

    def pre_commit(self, txid: int) -> None:
        """Called before checkpoint ``txid`` is committed. Can be called again for the same txid."""

    def pre_rollback(self) -> None:
        """Called before uncommitted state is discarded."""


class BasicBolt(Component):
    """A processing step that anchors and acks automatically.

    Every emit is anchored to the input, and the input is acked when ``execute`` returns.

    ``FailedException`` fails the input; any other exception ends the worker.
    """

    collector: BasicCollector

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Process one tuple."""
        raise NotImplementedError

    def cleanup(self) -> None:
        """Called at an orderly shutdown."""
