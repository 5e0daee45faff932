"""Base classes of user code: spouts and bolts.

A component object is built by the user (``Count(10)``), copied to each of its tasks by cloudpickle, and then driven by
one thread at a time: a component needs no locks. ``self.conf``, ``self.context`` and ``self.collector`` are set before
``setup`` is called. ``open`` and ``prepare``, ``close`` and ``cleanup`` are Storm's methods for the same purposes.

Output streams are declared on the class: ``outputs = ["word"]`` for the default stream, ``outputs = {"default":
["word"], "errors": ["line", "reason"]}`` for several, or the method ``declare_output_fields(declarer)``. A NamedTuple
or dataclass takes the place of a list: its objects are rows, and ``tup.to(Sale)`` makes an object of a tuple. With
``inputs = Sale`` on a bolt, ``create_topology`` checks that every input has these fields, of these types.

``blocking = True`` gives each executor of the component its own thread. Set it on a component that sleeps or waits for
the network inside ``execute`` or ``next_tuple``. All other components share one run loop per worker, which is faster.
"""

from __future__ import annotations  # pure

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tupletree.collector import BasicCollector, BoltCollector, SpoutCollector
from tupletree.context import TopologyContext
from tupletree.errors import UsageError
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from tupletree.state.contract import KeyValueState

__all__ = [
    "BasicBolt",
    "BasicCollector",
    "BasicStatefulBolt",
    "Bolt",
    "BoltCollector",
    "Component",
    "Outputs",
    "Spout",
    "SpoutCollector",
    "StatefulBolt",
    "TopologyContext",
]

Outputs = Sequence[str] | Mapping[str, Any] | type
Yielded = Iterator[Sequence[Any]] | None
"""The result of a method that yields rows, or of one that emits."""
Awaited = Awaitable[Iterable[Sequence[Any]] | None] | AsyncIterator[Sequence[Any]]
"""The result of a coroutine function, or of an asynchronous generator function."""


RAISE_FAILED: Final = "raise tupletree.FailedException to fail only the tuple"
RAISE_FAILED_FOR_BATCH: Final = "raise tupletree.FailedException to fail only the batch"


class _Conf:
    """The configuration of the context. An attribute ``conf`` that a component sets itself takes precedence."""

    def __get__(self, component: Any, owner: type) -> Mapping[str, Any]:
        if component is None:
            return {}
        conf: Mapping[str, Any] = component.context.conf
        return conf


class Component:
    """Common base of spouts and bolts.

    Attributes:
        context: the task's place in the topology, its metrics and its clock.
        conf: the topology's configuration, overridden by the component's own. Both are available from ``setup`` on.
    """

    outputs: ClassVar[Outputs] = ()
    inputs: ClassVar[type | None] = None
    _remedy: ClassVar[str] = ""
    blocking: bool = False
    context: TopologyContext
    conf = _Conf()

    def setup(self) -> None:
        """Called once per task before any tuple, after ``open`` or ``prepare``: open files and connections here."""

    def teardown(self) -> None:
        """Called at an orderly shutdown, before ``close`` or ``cleanup``. Not guaranteed: a worker can be killed."""

    def blob_updated(self, name: str, path: str) -> None:
        """Called when a blob of ``topology.blobstore.map`` has a new version: load it here.

        ``name``: the local name. ``path``: the new version, complete; ``self.context.blob(name)`` returns it as well.
        Called on the task's own thread between two tuples, from ``setup`` on, and not with ``workerRestart``. Versions
        that follow each other quickly can be passed over, but never the newest. An exception is reported as an error of
        the component, which then goes on with what it has.
        """

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare the output streams; by default those in ``outputs``. Called at build time."""
        declarer.declare_outputs(self.outputs)

    def component_configuration(self) -> Mapping[str, Any]:
        """Return the component's own configuration; ``add_configurations`` overrides it. Called at build time.

        What a class of the library returns, such as the tick interval of a BatchingBolt, holds in a subclass as well,
        unless its method sets the same keys.
        """
        return {}


def configuration_of(component: Component) -> Mapping[str, Any]:
    """Return a component's own configuration, on top of that of the library's class that it is derived from.

    Raises:
        UsageError: it is no dict.
    """
    name = "component_configuration"
    own = component.component_configuration()
    if not isinstance(own, Mapping):
        raise UsageError(f"{type(component).__name__}.{name} returned {own!r}: return a dict of keys and values")
    bases = [one for one in type(component).__mro__ if one.__module__.startswith("tupletree.") and name in vars(one)]
    return {**vars(bases[0])[name](component), **own} if bases else own


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

    def next_tuple(self) -> Iterator[Sequence[Any] | None] | None:
        """Emit the tuples available now: any number, or none. Must not block unless ``blocking`` is True.

        If this is a generator function, each call of the framework runs it to the next ``yield`` and emits that row,
        untracked, on the default stream; ``yield None`` means that there is no row now. The generator may be endless;
        when it ends, ``next_tuple`` is called again. Positioned spouts and spouts that track messages emit instead.
        """
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

        Called after ``open`` and ``setup`` if a checkpoint was committed before, and after every failure. If there is
        no checkpoint yet, ``state`` is what ``checkpoint_state`` returned right after ``setup``. Message ids pending at
        the time of the call are no longer acked or failed.
        """
        raise NotImplementedError

    def merge_states(self, states: Sequence[Any]) -> Any:
        """Return one position for all tasks, given the position of each, when the number of tasks changes.

        Every task is given the result by ``restore_state``, and takes from it what is its own. A positioned spout
        without this method has a fixed number of tasks.
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


def remedy_of(component: Component) -> str:
    """Return how the component's code fails its input rather than its worker; "" if it cannot."""
    return component._remedy


class Bolt(Component):
    """A processing step that anchors and acks by hand.

    ``holds_tuples = True`` declares that tuples are acked long after ``execute``, as in a join or a bolt that writes in
    batches. Without this flag, ``tupletree health`` reports a bolt that has acked nothing so far as forgetting to ack.
    ``can_be_full = True`` declares that the bolt sets ``self.context.is_full``, to hold back its senders.

    ``prepare`` is called once, then ``execute`` for each input; ``cleanup`` at an orderly shutdown (not guaranteed). An
    exception from ``execute`` ends the worker; the worker's tuples are replayed.
    """

    _remedy = "call collector.fail(tup, error) to fail only the tuple"
    collector: BoltCollector
    holds_tuples: bool = False
    can_be_full: bool = False

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple) -> Yielded | Awaited:
        """Process one tuple; ack or fail it now or later.

        If this is a generator function, each row that it yields is emitted on the default stream, anchored to ``tup``.
        Yield before acking. A coroutine function is for an AsyncBolt alone.
        """
        raise NotImplementedError

    def tick(self) -> Yielded:
        """Called at each tick (``topology.tick.tuple.freq.secs``). If not overridden, ``execute`` gets the ticks.

        Rows may be emitted or yielded. They are not anchored.
        """

    def execute_batch(self, tuples: list[Tuple]) -> Yielded:
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
        return None

    def cleanup(self) -> None:
        """Called at an orderly shutdown."""


class StatefulBolt(Bolt):
    """A bolt with durable state. The states of the whole topology are saved together, about once a second.

    Order of calls on one thread: ``prepare``, ``init_state``, then ``execute`` for each input. Read and change the
    state in ``execute``, emit anchored, and ack once the state reflects the tuple. The spouts receive an ack when the
    checkpoint that contains the tuple's effect is committed (docs/guides/state.md: the guarantees of each mode).

    The hooks are called just before the framework acts on the state. An exception from a hook or from ``init_state``
    fails the checkpoint; the error is reported, and the topology recovers from the last checkpoint.

    Attributes:
        state: the state, unless ``init_state`` is overridden.
        default_factory: makes the value of a missing key, as in ``collections.defaultdict``: with
            ``default_factory = int``, ``self.state[word] += 1`` counts. None: a missing key is a KeyError.
        needs_positions: True if every spout before the bolt must be positioned: others are refused at build time.
        is_divisible: True if the keys of the state are values of the fields grouping, or ``values_of_key`` tells these:
            the number of tasks can then change, and a question for a key can be for one task. None: each key is checked
            when the number changes; one task cannot become several then, since with one task every key is where it
            belongs. False: the number of tasks is fixed.
        state_version: raise it when the values of the state change their form, and define ``migrate_value``.
    """

    needs_positions: bool = False
    is_divisible: bool | None = None
    state_version: int = 1
    state: KeyValueState[Any, Any]
    default_factory: Callable[[], Any] | None = None

    def check_conf(self, component_id: str, conf: Mapping[str, Any]) -> None:
        """Check the configuration of the topology: called at submission if the bolt ``needs_positions``.

        Raises:
            ConfigError: the bolt cannot work with it.
        """

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Called with the last committed state, before the first ``execute`` and after every rollback.

        Discard everything derived from the previous state. With aligned checkpoints, a rollback creates a fresh copy
        of the bolt and calls ``prepare`` and ``setup`` before ``init_state``.
        """
        self.state = state

    def values_of_key(self, key: Any, fields: Sequence[str]) -> Sequence[Any] | None:
        """Return the values of grouping ``fields`` for a key of the state: tuples with these values change its entry.

        Asked when the number of tasks changes, to find the task that an entry moves to. By default, the key is the
        value of a single field, or a tuple with the values of several fields, in the order of the grouping. None: the
        entry is of the whole task, and each new task gets ``merge_values`` of it.
        """
        return (key,) if len(fields) == 1 or type(key) is not tuple else key

    def merge_values(self, key: Any, values: Sequence[Any]) -> Any:
        """Return the value for the new tasks of an entry without a grouping key, given those of the old tasks.

        If the ``state_version`` has changed at the same time, they are still those of the earlier version, and so is
        the result: ``migrate_value`` comes afterwards.
        """
        raise NotImplementedError(f"{type(self).__name__} has entries without a key and no merge_values")

    def migrate_value(self, key: Any, value: Any, version: int) -> Any:
        """Return a value that an earlier version of this class stored, as this one stores it.

        Called for every entry before ``init_state``, if ``state_version`` was ``version`` when the state was stored.
        The values returned are saved with the next checkpoint. Until then a failure or a restart can discard them, and
        the method is called again with the stored ones: it must depend on its arguments alone. An exception is
        reported, and the topology processes nothing. So is a value that cannot be stored.
        """
        raise NotImplementedError(f"{type(self).__name__} has no migrate_value")

    def migrate_entry(self, key: Any, value: Any, version: int) -> Any:
        """Framework side of ``migrate_value``: classes of the library pass on those entries that hold user values."""
        return self.migrate_value(key, value, version)

    def pre_prepare(self, txid: int) -> None:
        """Called before the state is saved for checkpoint ``txid``. Write buffered values to the state now."""

    def pre_commit(self, txid: int) -> None:
        """Called before checkpoint ``txid`` is committed. Can be called again for the same txid."""

    def post_commit(self, txid: int, state: KeyValueState[Any, Any]) -> None:
        """Called after this task's state has committed checkpoint ``txid``, and before the whole checkpoint ends.

        This is the place to write a checkpoint's results to other systems. Take them from ``state``, which has the
        committed values; do not change it.

        No later checkpoint begins before this method has returned in every task. If it raises, or the worker ends, it
        is called again for the same txid, possibly on a new bolt after ``prepare`` and before ``init_state``. A worker
        that was replaced can call it late, for a checkpoint that has ended. So a write must do no harm when it is
        repeated or late.
        """

    def pre_rollback(self) -> None:
        """Called before uncommitted state is discarded."""


class BasicStatefulBolt(StatefulBolt):
    """A stateful bolt that anchors and acks automatically, as a BasicBolt does.

        class Count(BasicStatefulBolt):
            outputs = ["word", "count"]
            default_factory = int

            def execute(self, tup):
                self.state[tup["word"]] += 1
                yield [tup["word"], self.state[tup["word"]]]

    Rows that ``execute`` yields, or emits with ``self.collector``, are anchored to the input, which is acked when
    ``execute`` returns. ``FailedException`` fails the input; any other exception ends the worker. Changes that
    ``execute`` made to the state before FailedException stay: raise it before changing anything.
    """

    _remedy = RAISE_FAILED


class BasicBolt(Component):
    """A processing step that anchors and acks automatically.

    Every emit is anchored to the input, and the input is acked when ``execute`` returns.

    ``FailedException`` fails the input; any other exception ends the worker.
    """

    _remedy = RAISE_FAILED
    collector: BasicCollector

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once, before the first ``execute``."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> Yielded:
        """Process one tuple. If this is a generator function, each row that it yields is emitted on the default stream.

        ``yield [word]`` is equivalent to ``collector.emit([word])``.
        """
        raise NotImplementedError

    def tick(self) -> Yielded:
        """Called at each tick (``topology.tick.tuple.freq.secs``). If not overridden, ``execute`` gets the ticks.

        Rows may be emitted, with ``self.collector``, or yielded. They are not anchored.
        """

    def cleanup(self) -> None:
        """Called at an orderly shutdown."""
