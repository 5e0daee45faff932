"""Bolt tasks, and the base class of all tasks: a user's component with its collector, streams and counters.

An executor drives a task on one thread. ``run`` is the hot path of the whole system: a loop over the rows of a batch.
Work that can be done once per batch is kept out of the loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tupletree._compiled import IS_COMPILED
from tupletree._signatures import check_returned
from tupletree.component import BasicBolt, Bolt, Component, TopologyContext
from tupletree.errors import FailedException, ReportedFailedException, TupletreeError, named
from tupletree.tuples import SYSTEM_COMPONENT, Origin, Tuple

from ..execution.bolt_trees import BoltTrees
from ..execution.thread_splitting import SetUp
from .ack_updates import AckUpdates, TreeTracker
from .batches import Rows
from .collectors import TaskBasicCollector, TaskBoltCollector
from .counts import NEVER, Counters, inputs_of, sample_every
from .ids import RandomBits, RandomIds
from .output_streams import OutBuffer, OutStream

if TYPE_CHECKING:
    from ..checkpoint.participant import Participant

GIVE_UP_AFTER = 20_000
"""A sampled tuple is considered forgotten if it is still unacked after this many further tuples."""

ReportError = Callable[[str, int, BaseException], None]
Observer = Callable[[str, str, Sequence[Any]], None]
"""A function that receives emitted tuples as (component, stream, values)."""
Clock = Callable[[], float]


class TaskFailure(TupletreeError):
    """A component raised an exception, so its worker must end. ``__cause__`` is the component's exception.

    SystemExit counts too: on the thread of a run loop, SystemExit would silently end only that thread.
    """

    def __init__(self, component_id: str, task_id: int, cause: BaseException) -> None:
        super().__init__(f"task {task_id} of component {component_id!r} failed: {named(cause)}")
        self.component_id = component_id
        self.task_id = task_id
        self.__cause__ = cause


@dataclass(frozen=True, slots=True)
class Environment:
    """Dependencies that a worker passes to its tasks."""

    clock: Clock
    getrandbits: RandomBits
    report_error: ReportError
    is_tracked: bool
    log_emit: Observer  # receives each emitted tuple under topology.debug
    ids_at_once: int = 256  # number of ids that a task generates at a time
    ids_are_seeded: bool = IS_COMPILED  # False where ids must be the same with and without compilation

    def ids(self) -> RandomIds:
        """Return a source of root and edge ids for one task."""
        return RandomIds(self.getrandbits, self.ids_at_once, self.ids_are_seeded)


class Task(TreeTracker):
    """Base class of spout and bolt tasks."""

    def __init__(
        self, component: Component, context: TopologyContext, streams: dict[str, OutStream], env: Environment
    ) -> None:
        self.component_id = context.component_id
        self.task_id = context.task_id
        self.is_tracked = env.is_tracked
        self.context = context
        self.streams = streams
        self.counters = Counters()
        self.inputs = inputs_of(context.sources, bool(context.conf["topology.tick.tuple.freq.secs"]))
        self.updates = AckUpdates()  # replaced by the updates of the run loop that drives this task
        self.ack_updates = self.updates  # the same, unless acks wait for a checkpoint
        self.defers_acks = False
        self.has_failed_tuples = False  # since the last reset: no checkpoint may cover a failed tuple
        self.participant: Participant | None = None  # takes part in checkpoints for this task
        self.is_open = False
        self.is_declared_blocking = component.blocking
        self.takes_batches = False  # a step runs all rows of a batch at once
        self.set_up = SetUp()  # replaced by the executor's SetUp
        self.must_yield = False  # set by the watchdog when the current step takes too long
        self.remake: Callable[[], Any] | None = None  # makes a new copy of the component as submitted
        self.ask_soon: Callable[[TopologyContext, Callable[[], None]], None] | None = None
        self._env = env
        component.context = context

    def use(self, updates: AckUpdates) -> None:
        """Report to the ackers through these updates from now on."""
        self.updates = updates
        if not self.defers_acks:
            self.ack_updates = updates

    def equip(self, context: TopologyContext) -> None:
        """Set the clock and the ``call_soon`` of a component's context."""
        context.clock = self._env.clock
        if self.ask_soon is not None:
            context.call_soon = functools.partial(self.ask_soon, context)

    def end(self, bolt: BasicBolt | Bolt) -> None:
        """Call ``cleanup`` of a copy of the bolt; report an exception instead of raising it."""
        try:
            self.clean_up(bolt)
        except (Exception, SystemExit) as error:
            self.report_error(error)

    def clean_up(self, bolt: BasicBolt | Bolt) -> None:
        """Call a bolt's ``cleanup``."""
        cleanup: Callable[[], object] = bolt.cleanup
        self.refuse(bolt, "cleanup", cleanup())

    def refuse(self, component: Component, method: str, returned: object) -> None:
        """Raise TopologyError if a method of the component may not return this value, which would be ignored."""
        check_returned(self.component_id, component, method, returned, self.feeds)

    def feeds(self, task: int) -> bool:
        """True if a stream of this task goes to the given task."""
        return any(task in stream.buffers for stream in self.streams.values())

    def renewed(self) -> Any:
        """Return a new copy of the component with a new context. Pending ``call_soon`` calls of the old copy lapse."""
        assert self.remake is not None
        component = self.remake()
        self.context = component.context = self.context.renewed()
        self.equip(self.context)
        return component

    def buffers(self) -> Iterable[OutBuffer]:
        """Return the buffer of every receiving task of every stream."""
        return (buffer for stream in self.streams.values() for buffer in stream.buffers.values())

    def open(self) -> None:
        """Call the component's ``open`` or ``prepare``."""
        raise NotImplementedError

    def close(self) -> None:
        """Call the component's ``close`` or ``cleanup``, if it was opened."""
        raise NotImplementedError

    def processed(self, origin: Origin, latency_s: float) -> None:
        """Record the latency of a sampled tuple that was acked."""
        self.counters.processed(latency_s)
        if self.inputs is not None:
            self.inputs[origin].processed(latency_s)

    def report_error(self, error: BaseException) -> None:
        """Report an error of this task to the user."""
        self._env.report_error(self.component_id, self.task_id, error)

    def failure(self, error: BaseException) -> TaskFailure:
        """Wrap an exception of this task's component in a TaskFailure."""
        return TaskFailure(self.component_id, self.task_id, error)


class BasicBoltTask(Task):
    """A task of a basic bolt."""

    def __init__(
        self, bolt: BasicBolt, context: TopologyContext, streams: dict[str, OutStream], env: Environment
    ) -> None:
        super().__init__(bolt, context, streams, env)
        self.bolt = bolt
        self.collector = TaskBasicCollector(self, streams, env.ids())
        bolt.collector = self.collector
        self._sample_every = sample_every(context.conf["topology.stats.sample.rate"])
        self._until_sample = 0 if self._sample_every < NEVER else NEVER  # rows to skip before the next sample

    def open(self) -> None:
        self.is_open = True
        prepare: Callable[..., object] = self.bolt.prepare
        with self.set_up:
            self.refuse(self.bolt, "prepare", prepare(self.context.conf, self.context))

    def close(self) -> None:
        if self.is_open:
            self.clean_up(self.bolt)

    def renew(self) -> None:
        """Continue with a new copy of the bolt, as after a crash. Raises TaskFailure if the copy fails to start."""
        self.end(self.bolt)
        try:
            self.bolt = self.renewed()
            self.bolt.collector = self.collector
            self.open()
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error

    def run(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:  # noqa: C901, no call for each row
        """Execute rows ``start`` to ``stop`` and ack or fail each, until ``must_yield``. Return the number executed.

        Raises:
            TaskFailure: ``execute`` raised anything but FailedException.
        """
        collector = self.collector
        execute: Callable[..., object] = self.bolt.execute
        updates = self.updates
        columns, roots, edges, pairs = rows.columns, rows.roots, rows.edges, rows.pairs
        clock = self._env.clock
        started_s = sampled_s = clock()
        is_user = origin.component != SYSTEM_COMPONENT
        sample_at = start + self._until_sample if is_user else NEVER
        failed = 0
        at = start
        while at < stop and not self.must_yield:
            if at >= sample_at:
                sampled_s = clock()
            root = roots[at]
            edge = edges[at]
            own = pairs.get(at) if pairs else None
            collector.root = root
            collector.pairs = own
            collector.children = 0
            tup = origin.tuple_at(columns, at, root, edge, own)
            at += 1
            try:
                returned = execute(tup, collector)
                if returned is not None:
                    self.refuse(self.bolt, "execute", returned)
            except FailedException as error:
                self._fail(tup, error)
                failed += 1
                continue
            except (Exception, SystemExit) as error:
                raise self.failure(error) from error
            if own is not None:
                for other, edge_there in own:
                    updates.add_ack(other, edge_there ^ collector.children)
            elif root:
                updates.add_ack(root, edge ^ collector.children)
            if at > sample_at:  # failed rows are not measured: the next acked row is
                sample_at = at - 1 + self._sample_every
                self.processed(origin, clock() - sampled_s)
        collector.root = 0
        collector.pairs = None
        if is_user:
            self._until_sample = sample_at - at
        self._count(origin, at - start, failed, clock() - started_s)
        return at - start

    def _count(self, origin: Origin, executed: int, failed: int, elapsed_s: float) -> None:
        self.counters.settled(executed, failed, elapsed_s)
        if self.inputs is not None:
            self.inputs[origin].settled(executed, failed, elapsed_s)

    def _fail(self, tup: Tuple, error: FailedException) -> None:
        self.has_failed_tuples = True
        self.updates.fails.update([root for root, _ in tup.anchors])
        if isinstance(error, ReportedFailedException):
            self.report_error(error)


class BoltTask(Task):
    """A task of a bolt that anchors and acks explicitly, with the trees that the task has begun itself."""

    def __init__(self, bolt: Bolt, context: TopologyContext, streams: dict[str, OutStream], env: Environment) -> None:
        super().__init__(bolt, context, streams, env)
        self.bolt = bolt
        self.collector = TaskBoltCollector(self, streams, env.ids())
        bolt.collector = self.collector
        self.takes_batches = type(bolt).execute_batch is not Bolt.execute_batch
        self.unacked: set[Tuple] | None = None  # in aligned mode: executed, neither acked nor failed
        conf = context.conf
        self.trees = BoltTrees(
            conf["topology.message.timeout.secs"] if conf["topology.enable.message.timeouts"] else None,
            on_acked=self._ack_many,
            on_failed=self._fail_many,
            on_reset=self._reset_many,
        )
        self._sample_every = sample_every(context.conf["topology.stats.sample.rate"])
        self._sampled: Tuple | None = None  # awaits its ack since _sampled_s, until _give_up_at
        self._sampled_s = 0.0
        self._sample_at = 0 if self._sample_every < NEVER else NEVER
        self._give_up_at = 0

    def open(self) -> None:
        self.is_open = True
        prepare: Callable[..., object] = self.bolt.prepare
        with self.set_up:
            self.refuse(self.bolt, "prepare", prepare(self.context.conf, self.context, self.collector))

    def close(self) -> None:
        if self.is_open:
            self.clean_up(self.bolt)

    def renew(self) -> None:
        """Continue with a new copy of the bolt, as after a crash. Unacked tuples and pending trees are forgotten.

        Raises:
            TaskFailure: making or preparing the copy failed.
        """
        self.end(self.bolt)
        self.trees.forget()
        self.unacked = None if self.unacked is None else set()
        try:
            self.bolt = self.renewed()
            self.bolt.collector = self.collector
            self.open()
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error

    def run(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Execute rows ``start`` to ``stop``, until ``must_yield`` is set. Return the number executed.

        Raises:
            TaskFailure: ``execute`` raised.
        """
        if self.takes_batches:
            return self._run_batch(rows, start, stop, origin)
        execute: Callable[..., object] = self.bolt.execute
        columns, roots, edges, pairs = rows.columns, rows.roots, rows.edges, rows.pairs
        started_s = self._env.clock()
        executed = self.counters.executed
        is_user = origin.component != SYSTEM_COMPONENT
        sample_at = self._sample_at if is_user else NEVER  # ticks are not sampled: few bolts ack them
        unacked = self.unacked if is_user else None
        at = start
        while at < stop and not self.must_yield:
            values = [column[at] for column in columns]  # a new list, because such a bolt may keep its tuples
            tup = origin.new_tuple(values, roots[at], edges[at], pairs.get(at) if pairs else None)
            if executed >= sample_at:
                sample_at = self._sample(tup, executed)
            if unacked is not None:
                unacked.add(tup)
            executed += 1
            at += 1
            try:
                returned = execute(tup)
                if returned is not None:
                    self.refuse(self.bolt, "execute", returned)
            except (Exception, SystemExit) as error:
                raise self.failure(error) from error
        self._ran(origin, at - start, self._env.clock() - started_s)
        return at - start

    def _run_batch(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        columns, roots, edges, pairs = rows.columns, rows.roots, rows.edges, rows.pairs
        started_s = self._env.clock()
        tuples = [
            origin.tuple_at(columns, at, roots[at], edges[at], pairs.get(at) if pairs else None)
            for at in range(start, stop)
        ]
        executed = self.counters.executed
        if executed >= self._sample_at and origin.component != SYSTEM_COMPONENT:
            self._sample(tuples[0], executed)
        if self.unacked is not None and origin.component != SYSTEM_COMPONENT:
            self.unacked.update(tuples)
        execute_batch: Callable[..., object] = self.bolt.execute_batch
        try:
            returned = execute_batch(tuples)
            if returned is not None:
                self.refuse(self.bolt, "execute_batch", returned)
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error
        self._ran(origin, stop - start, self._env.clock() - started_s)
        return stop - start

    def _ran(self, origin: Origin, executed: int, elapsed_s: float) -> None:
        self.counters.ran(executed, elapsed_s)
        if self.inputs is not None:
            self.inputs[origin].ran(executed, elapsed_s)

    def begin_tree(self, root: int, value: int, inputs: list[Tuple]) -> None:
        """Track a tree of this task's own, which the collector began for these inputs."""
        self.updates.add_init(root, value, self.task_id)
        self.trees.begin(root, inputs, self._env.clock())

    def _ack_many(self, tuples: Sequence[Tuple]) -> None:
        self.collector.ack_many(tuples)

    def _fail_many(self, tuples: Iterable[Tuple]) -> None:
        for tup in tuples:
            self.collector.fail(tup)

    def _reset_many(self, tuples: Iterable[Tuple]) -> None:
        for tup in tuples:
            self.collector.reset_timeout(tup)

    def _sample(self, tup: Tuple, count: int) -> int:
        """Measure the time to this tuple's ack, unless another is being measured. Return the next count to sample."""
        if self._sampled is None or count >= self._give_up_at:
            self._sampled = tup
            self._sampled_s = self._env.clock()
            self._give_up_at = count + GIVE_UP_AFTER
        self._sample_at = count + self._sample_every
        return self._sample_at

    def acked(self, tup: Tuple) -> None:
        """Record that the collector acked a tuple."""
        self.counters.acked += 1
        if self.inputs is not None:
            self.inputs[tup._origin].acked += 1
        if self.unacked is not None:
            self.unacked.discard(tup)
        if tup is self._sampled:
            self._take_sample(tup)

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""
        self.counters.acked += len(tuples)
        if self.inputs is not None:
            for tup in tuples:
                self.inputs[tup._origin].acked += 1
        if self.unacked is not None:
            self.unacked.difference_update(tuples)
        if self._sampled is not None and self._sampled in tuples:
            self._take_sample(self._sampled)

    def _take_sample(self, tup: Tuple) -> None:
        self._sampled = None
        self.processed(tup._origin, self._env.clock() - self._sampled_s)

    def failed(self, tup: Tuple) -> None:
        """Record that the collector failed a tuple."""
        self.counters.failed += 1
        if self.inputs is not None:
            self.inputs[tup._origin].failed += 1
        self.has_failed_tuples = True
        if self.unacked is not None:
            self.unacked.discard(tup)
        if tup is self._sampled:
            self._sampled = None
