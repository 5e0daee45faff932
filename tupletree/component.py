"""What a user writes: spouts and bolts.

A component object is built by the user (``Count(10)``), copied to each of its tasks by cloudpickle, and then driven by
one thread at a time: no component needs a lock of its own. ``self.collector`` and ``self.context`` are set before
``open`` or ``prepare`` is called.

Output streams are declared on the class: ``outputs = ["word"]`` for the default stream, ``outputs = {"default":
["word"], "errors": ["line", "reason"]}`` for several, or the method ``declare_output_fields(declarer)``.

``blocking = True`` gives each executor of the component a thread of its own: say so of a component that sleeps or waits
for the network inside ``execute`` or ``next_tuple``. Others share one run loop in each worker, which is faster.
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
    """What a task knows of itself and of its topology.

    Attributes:
        task_id: this task's id, unique in the topology; ids start at 1.
        task_index: its position among the tasks of its component, from 0.
        component_id: the component it belongs to.
        sources: for each (component, stream) it subscribes to, the kind of grouping, in lower case.
        targets: for each of its streams, the components that subscribe to it and their kind of grouping.
        conf: the topology's configuration with the component's own laid over it.
        topology_id: the id that nimbus gave the topology.
        call_soon: has a function called on this task's own thread, after what waits there already. The only thing of a
            component that any thread may use, from ``open`` or ``prepare`` on: it lets a component that works on
            threads of its own emit, ack and fail when they are done. What the function raises ends the worker.
        clock: seconds since some moment; in a LocalCluster with simulated time, the simulated seconds.
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
        self._tasks = tasks  # shared by all contexts: a copy for each would take memory by the square of their number

    def renewed(self) -> TopologyContext:
        """The same for another copy of the component, which registers its metrics and status itself."""
        other = copy.copy(self)
        other.metrics, other.status = {}, None
        other.call_soon = _no_thread
        return other

    def component_tasks(self, component_id: str) -> list[int]:
        """The task ids of a component, ascending.

        Raises:
            KeyError: no component of that id.
        """
        return list(self._tasks[component_id])

    def register_metric(self, name: str, read: Metric, help: str = "") -> None:
        """Show a figure of this task on the worker's ``/metrics``, as the gauge ``tupletree_user_<name>``.

        ``read`` is called at each scrape, from another thread: it must be quick and must not change anything. It is
        left out of a scrape for which it raises. The other ``register_…`` are for figures that the component changes
        itself; docs/guides/metrics.md.

        Raises:
            ValueError: the name is not fit for one, this task has a metric of that name, or has a hundred already.
        """
        self._register(name, "gauge", help, read)

    def register_counter(self, name: str, help: str = "") -> Counter:
        """A number that only grows: ``tupletree_user_<name>_total``. Raises ValueError as ``register_metric``."""
        counter = Counter()
        self._register(name, "counter", help, lambda: counter.value)
        return counter

    def register_gauge(self, name: str, help: str = "") -> Gauge:
        """A number that the task sets: ``tupletree_user_<name>``. Raises ValueError as ``register_metric``."""
        gauge = Gauge()
        self._register(name, "gauge", help, lambda: gauge.value)
        return gauge

    def register_histogram(self, name: str, help: str = "", bounds: Sequence[float] = BOUNDS_S) -> Histogram:
        """Counts by size: ``tupletree_user_<name>``, with the buckets of latencies in seconds unless others are given.

        Raises:
            ValueError: as ``register_metric``; or the bounds do not ascend, or are none or more than fifty.
        """
        histogram = Histogram(bounds)
        self._register(name, "histogram", help, histogram.snapshot)
        return histogram

    def register_timer(self, name: str, help: str = "", bounds: Sequence[float] = BOUNDS_S) -> Timer:
        """A histogram of how long something takes: ``tupletree_user_<name>_seconds``.

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
        """As the others, for components of tupletree itself: shown as ``tupletree_<name>``, and not counted."""
        self.metrics[f"tupletree_{name}"] = Registered(f"tupletree_{name}", kind, help, read)

    def register_status(self, read: Status) -> None:
        """Show what this task is doing in ``tupletree describe`` and ``monitor``: a small mapping that JSON carries.

        ``read`` is called about once a second, from another thread: it must be quick and must not change anything.
        """
        self.status = read


def _no_clock() -> float:
    raise RuntimeError("the clock is there from open or prepare on")


def _no_thread(function: Callable[[], None]) -> None:
    raise RuntimeError("call_soon is there from open or prepare on")


class Component:
    """What spouts and bolts have in common."""

    outputs: ClassVar[Outputs] = ()
    blocking: bool = False
    context: TopologyContext

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare the output streams in code; by default what ``outputs`` says. Called at build time."""
        declarer.declare_outputs(self.outputs)

    def component_configuration(self) -> Mapping[str, Any]:
        """Keys of the component's own configuration, as by ``add_configurations``, which comes after. At build time."""
        return {}


class Spout(Component):
    """A source of tuples.

    Order of calls on one thread: ``open``, then ``activate`` and ``deactivate`` as the topology's status changes,
    ``next_tuple`` while active, ``ack`` and ``fail`` at any time after ``open``; ``close`` on an orderly end (not
    guaranteed: a killed worker does not call it).

    ``paces_itself = True`` leaves ``topology.max.spout.pending`` to the spout: it is asked for tuples whatever is
    pending.
    """

    collector: SpoutCollector
    paces_itself: bool = False

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        """Called once, before anything else, and not before the topology is first active."""

    def close(self) -> None:
        """Called on an orderly end."""

    def activate(self) -> None:
        """Called when a deactivated topology becomes active again."""

    def deactivate(self) -> None:
        """Called when the topology is deactivated: no ``next_tuple`` until it is active again."""

    def next_tuple(self) -> None:
        """Emit what there is to emit now: any number of tuples, or none. Must not block (or say ``blocking``)."""
        raise NotImplementedError

    def checkpoint_state(self) -> Any:
        """Where it stands after all that it has emitted so far: a value that a tuple may carry. For ``restore_state``.

        A spout that has both methods is *positioned*. In a stateful topology with
        ``topology.state.checkpoint.aligned: true`` its position is part of every checkpoint; after a failure all states
        are those of one checkpoint again, and so is the position (docs/guides/state.md).
        """
        raise NotImplementedError

    def restore_state(self, state: Any) -> None:
        """Go back: emit again all that was emitted after ``checkpoint_state`` returned this value, and nothing else.

        Called after ``open`` where a checkpoint was committed before, and after every failure; if there is no
        checkpoint yet, with what ``checkpoint_state`` returned right after ``open``. Message ids that are pending then
        are neither acked nor failed any more.
        """
        raise NotImplementedError

    def ack(self, msg_id: Any) -> None:
        """The tree of the tuple with that message id is complete."""

    def fail(self, msg_id: Any) -> None:
        """The tree of the tuple with that message id failed or timed out. Replaying it is the spout's business.

        A spout that does not override this gives the tuple up: it is not processed again. Such tuples are counted
        (``tupletree_worker_unheard_trees_total``), and ``tupletree health`` tells of them.
        """


def ignores_fails(component: Component) -> bool:
    """Whether this is a spout that hears of no failure: it does not override ``fail``."""
    return isinstance(component, Spout) and type(component).fail is Spout.fail and "fail" not in vars(component)


def is_positioned(component: Component) -> bool:
    """Whether this is a spout whose position belongs to a checkpoint: one with both methods."""
    return (
        isinstance(component, Spout)
        and type(component).checkpoint_state is not Spout.checkpoint_state
        and type(component).restore_state is not Spout.restore_state
    )


class Bolt(Component):
    """A processing step that anchors and acks by hand.

    ``holds_tuples = True`` says that tuples are acked long after they were executed, as by a join or a bolt that writes
    in batches. Otherwise ``tupletree health`` takes a bolt that has acked nothing so far for one that forgets to.

    ``prepare`` is called once, then ``execute`` for each input; ``cleanup`` on an orderly end (not guaranteed). An
    exception from ``execute`` ends the worker; its tuples are replayed.
    """

    collector: BoltCollector
    holds_tuples: bool = False

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple) -> None:
        """Process one tuple; ack or fail it now or later."""
        raise NotImplementedError

    def execute_batch(self, tuples: list[Tuple]) -> None:
        """Process tuples that arrived together; a bolt that overrides this is not asked to ``execute``.

        They come in the order in which ``execute`` would get them, all of one source task and stream: at least one, at
        most ``topology.transfer.batch.size``. Nobody waits for a batch to fill: of a slow stream it is one tuple. Ticks
        come in batches of their own: look at ``tuples[0].is_tick``.

        Ack or fail each tuple, now or later: ``self.collector.ack_many(tuples)``. An exception ends the worker, and the
        trees of all tuples that were not acked are replayed. A batch is processed to its end whatever time it takes;
        the other components of the worker wait meanwhile.
        """
        for tup in tuples:
            self.execute(tup)

    def cleanup(self) -> None:
        """Called on an orderly end."""


class StatefulBolt(Bolt):
    """A bolt whose state survives: it is saved with those of the whole topology, about once a second.

    Order of calls on one thread: ``prepare``, ``init_state``, then ``execute`` for each input. Read and change the
    state in ``execute``, emit anchored, and ack when the state has the tuple's effect. The spouts hear of an ack when
    the checkpoint is committed that has it (docs/guides/state.md says what is guaranteed in which mode).

    The hooks are called just before the framework acts on the state. An exception from one of them, or from
    ``init_state``, fails the checkpoint; it is reported, and the topology recovers from the last one.
    """

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Called with what was committed last, before the first ``execute``, and again whenever that is gone back to.

        What was derived from the state before is out of date when this is called. Where checkpoints are aligned it is
        then called on a fresh copy of the bolt, after ``prepare``.
        """
        raise NotImplementedError

    def pre_prepare(self, txid: int) -> None:
        """The state is about to be saved for checkpoint ``txid``: what is still to be put into it must be put now."""

    def pre_commit(self, txid: int) -> None:
        """What was saved for checkpoint ``txid`` is about to be committed. May be called again for the same txid."""

    def pre_rollback(self) -> None:
        """What is not committed is about to be discarded."""


class BasicBolt(Component):
    """A processing step whose emits are anchored to its input, which is acked when ``execute`` returns.

    ``FailedException`` fails the input; any other exception ends the worker.
    """

    collector: BasicCollector

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Process one tuple."""
        raise NotImplementedError

    def cleanup(self) -> None:
        """Called on an orderly end."""
