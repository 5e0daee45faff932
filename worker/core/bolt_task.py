"""Tasks of bolts that anchor and ack explicitly, with the trees that such a task has begun itself."""

from __future__ import annotations  # pure

from collections.abc import Callable, Iterable, Sequence
from types import GeneratorType

from tupletree.batching_bolt import BatchingBolt
from tupletree.component import BasicStatefulBolt, Bolt, TopologyContext, remedy_of
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.tuples import SYSTEM_COMPONENT, Origin, Tuple

from .batches import Rows
from .bolt_trees import BoltTrees
from .collectors import TaskBoltCollector
from .counts import NEVER, sample_every
from .output_streams import OutStream
from .task import Environment, Task

GIVE_UP_AFTER = 20_000
"""A sampled tuple is considered forgotten if it is still unacked after this many further tuples."""


class BoltTask(Task):
    """A task of a bolt that anchors and acks explicitly, with the trees that the task has begun itself."""

    def __init__(self, bolt: Bolt, context: TopologyContext, streams: dict[str, OutStream], env: Environment) -> None:
        super().__init__(bolt, context, streams, env)
        self.bolt = bolt
        self.collector = TaskBoltCollector(self, streams, env.ids())
        bolt.collector = self.collector
        self.takes_batches = type(bolt).execute_batch is not Bolt.execute_batch
        self._gathered: list[Tuple] | None = [] if isinstance(bolt, BatchingBolt) else None
        self._max_batch = bolt.max_batch if isinstance(bolt, BatchingBolt) else 0
        self._failed_now: set[Tuple] = set()  # of the batch that is being processed
        self._is_basic = isinstance(bolt, BasicStatefulBolt)
        self._has_tick = type(bolt).tick is not Bolt.tick
        self.unacked: set[Tuple] | None = None  # in stateful topologies: executed before, neither acked nor failed
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
        self.begin(self.bolt, "prepare", self.context.conf, self.context, self.collector)

    def close(self) -> None:
        if self.is_open:
            self.tear_down(self.bolt, "cleanup")

    def renew(self) -> None:
        """Continue with a new copy of the bolt, as after a crash. Unacked tuples and pending trees are forgotten.

        Raises:
            TaskFailedError: making or preparing the copy failed.
        """
        self.end(self.bolt)
        self.trees.forget()
        self._gathered = None if self._gathered is None else []
        self.unacked = None if self.unacked is None else set()
        try:
            self.bolt = self.renewed()
            self.bolt.collector = self.collector
            self.open()
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error

    def run(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:  # noqa: C901, no call for each row
        """Execute rows ``start`` to ``stop``, until ``must_yield`` is set. Return the number executed.

        Raises:
            TaskFailedError: ``execute`` raised.
        """
        if self._gathered is not None:
            return self._gather(rows, start, stop, origin)
        if self._has_tick and origin.component == SYSTEM_COMPONENT:
            return self._tick(origin, stop - start)
        if self.takes_batches:
            return self._run_batch(rows, start, stop, origin)
        if self._is_basic:
            return self._run_basic(rows, start, stop, origin)
        execute: Callable[..., object] = self.bolt.execute
        columns, roots, edges, pairs, sources = rows.columns, rows.roots, rows.edges, rows.pairs, rows.sources
        started_s = self._env.clock()
        executed = self.counters.executed
        is_user = origin.component != SYSTEM_COMPONENT
        sample_at = self._sample_at if is_user else NEVER  # ticks are not sampled: few bolts ack them
        unacked = self.unacked if is_user else None
        at = start
        while at < stop and not self.must_yield:
            values = [column[at] for column in columns]  # a new list: a bolt that acks explicitly may keep its tuples
            if sources is not None:
                origin = origin.of_task(sources[at])
            tup = origin.new_tuple(values, roots[at], edges[at], pairs.get(at) if pairs else None)
            if executed >= sample_at:
                sample_at = self._sample(tup, executed)
            executed += 1
            at += 1
            try:
                returned = execute(tup)
                if returned is not None:
                    self._emit_yielded("execute", returned, tup)
            except (Exception, SystemExit) as error:
                raise self.failure(error, remedy_of(self.bolt)) from error
            if unacked is not None and not tup._is_settled:
                unacked.add(tup)
        self._ran(origin, at - start, self._env.clock() - started_s)
        return at - start

    def _run_basic(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Execute rows as ``run`` does. Emits are anchored to the row's tuple, which is then acked or failed."""
        collector = self.collector
        execute: Callable[..., object] = self.bolt.execute
        columns, roots, edges, pairs, sources = rows.columns, rows.roots, rows.edges, rows.pairs, rows.sources
        started_s = self._env.clock()
        executed = self.counters.executed
        sample_at = self._sample_at if origin.component != SYSTEM_COMPONENT else NEVER
        at = start
        try:
            while at < stop and not self.must_yield:
                if sources is not None:
                    origin = origin.of_task(sources[at])
                tup = origin.tuple_at(columns, at, roots[at], edges[at], pairs.get(at) if pairs else None)
                if executed >= sample_at:
                    sample_at = self._sample(tup, executed)
                executed += 1
                at += 1
                collector.anchor = tup
                try:
                    returned = execute(tup)
                    if returned is not None:
                        self._emit_yielded("execute", returned)
                    collector.ack(tup)
                except FailedException as error:
                    collector.fail(tup, error)
                    if isinstance(error, ReportedFailedException):
                        self.report_error(error)
        except (Exception, SystemExit) as error:
            raise self.failure(error, remedy_of(self.bolt)) from error
        finally:
            collector.anchor = None
        self._ran(origin, at - start, self._env.clock() - started_s)
        return at - start

    def _gather(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Gather rows, and process whole batches of ``max_batch``; at a tick, process all gathered tuples."""
        gathered = self._gathered
        assert gathered is not None
        most = self._max_batch
        started_s = self._env.clock()
        if origin.component == SYSTEM_COMPONENT:
            most = len(gathered)
        else:
            tuples = self._tuples(rows, start, stop, origin)
            gathered += tuples
            if self.unacked is not None:
                self.unacked.update(tuples)
        while gathered and len(gathered) >= most:
            batch = gathered[:most]
            del gathered[:most]
            self._process(batch)
        self._ran(origin, stop - start, self._env.clock() - started_s)
        return stop - start

    def _process(self, batch: list[Tuple]) -> None:
        """Process a batch whose emits are anchored to all of its tuples, and ack or fail them."""
        collector = self.collector
        execute_batch: Callable[..., object] = self.bolt.execute_batch
        collector.anchor = batch
        self._failed_now.clear()
        try:
            self._emit_yielded("execute_batch", execute_batch(batch))
            failed = self._failed_now
            collector.ack_many([tup for tup in batch if tup not in failed] if failed else batch)
        except FailedException as error:
            for tup in batch:
                if tup not in self._failed_now:
                    collector.fail(tup, error)
            if isinstance(error, ReportedFailedException):
                self.report_error(error)
        except (Exception, SystemExit) as error:
            raise self.failure(error, remedy_of(self.bolt)) from error
        finally:
            collector.anchor = None
            self._failed_now.clear()

    def _tick(self, origin: Origin, count: int) -> int:
        """Call the bolt's ``tick`` for each tick tuple."""
        tick: Callable[..., object] = self.bolt.tick
        started_s = self._env.clock()
        try:
            for _ in range(count):
                self._emit_yielded("tick", tick())
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error
        self._ran(origin, count, self._env.clock() - started_s)
        return count

    def _emit_yielded(self, method: str, returned: object, anchor: Tuple | None = None) -> None:
        """Emit the rows of a generator, anchored to ``anchor`` or the collector's anchor; refuse any other result."""
        if type(returned) is GeneratorType:
            self.collector.emit_many(returned, anchor)
        elif returned is not None:
            self.refuse(self.bolt, method, returned)

    def _run_batch(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        started_s = self._env.clock()
        tuples = self._tuples(rows, start, stop, origin)
        execute_batch: Callable[..., object] = self.bolt.execute_batch
        try:
            returned = execute_batch(tuples if self.unacked is None else tuples[:])  # the bolt may change its list
            if returned is not None:
                self.refuse(self.bolt, "execute_batch", returned)
        except (Exception, SystemExit) as error:
            raise self.failure(error, remedy_of(self.bolt)) from error
        if self.unacked is not None and origin.component != SYSTEM_COMPONENT:
            self._keep_unacked(tuples)
        self._ran(origin, stop - start, self._env.clock() - started_s)
        return stop - start

    def _tuples(self, rows: Rows, start: int, stop: int, origin: Origin) -> list[Tuple]:
        """Return rows as tuples that await their acks."""
        columns, roots, edges, pairs, sources = rows.columns, rows.roots, rows.edges, rows.pairs, rows.sources
        tuples: list[Tuple] = []
        for at in range(start, stop):
            if sources is not None:
                origin = origin.of_task(sources[at])
            tuples.append(origin.tuple_at(columns, at, roots[at], edges[at], pairs.get(at) if pairs else None))
        executed = self.counters.executed
        if executed >= self._sample_at and origin.component != SYSTEM_COMPONENT:
            self._sample(tuples[0], executed)
        return tuples

    def _keep_unacked(self, tuples: list[Tuple]) -> None:
        """Remember the executed tuples that are neither acked nor failed. In most bolts there are none."""
        unacked = self.unacked
        for tup in tuples:
            if not tup._is_settled:
                unacked.add(tup)  # type: ignore[union-attr]

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
        tup._is_settled = True
        if self.unacked:
            self.unacked.discard(tup)
        if tup is self._sampled:
            self._sample_latency(tup)

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""
        self.counters.acked += len(tuples)
        if self.inputs is not None:
            for tup in tuples:
                self.inputs[tup._origin].acked += 1
        if self.unacked is not None:
            for tup in tuples:
                tup._is_settled = True
            if self.unacked:
                self.unacked.difference_update(tuples)
        if self._sampled is not None and self._sampled in tuples:
            self._sample_latency(self._sampled)

    def _sample_latency(self, tup: Tuple) -> None:
        self._sampled = None
        self.processed(tup._origin, self._env.clock() - self._sampled_s)

    def failed(self, tup: Tuple) -> None:
        """Record that the collector failed a tuple."""
        self.counters.failed += 1
        if self.inputs is not None:
            self.inputs[tup._origin].failed += 1
        self.has_failed_tuples = True
        if self._gathered is not None:
            self._failed_now.add(tup)
        tup._is_settled = True
        if self.unacked:
            self.unacked.discard(tup)
        if tup is self._sampled:
            self._sampled = None
