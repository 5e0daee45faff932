"""Tasks of basic bolts, which anchor and ack automatically.

``run`` is the hot path of the whole system: a loop over the rows of a batch. Work that can be done once per batch is
kept out of the loop.
"""

from __future__ import annotations  # pure

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from tupletree.component import BasicBolt, TopologyContext, remedy_of
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.tuples import SYSTEM_COMPONENT, Origin, Tuple

from .batches import Rows
from .collectors import TaskBasicCollector
from .counts import NEVER, sample_every
from .output_streams import OutStream
from .task import Environment, Task


class BasicBoltTask(Task):
    """A task of a basic bolt."""

    def __init__(
        self, bolt: BasicBolt, context: TopologyContext, streams: dict[str, OutStream], env: Environment
    ) -> None:
        super().__init__(bolt, context, streams, env)
        self.bolt = bolt
        self.collector = TaskBasicCollector(self, streams, env.ids())
        bolt.collector = self.collector
        self._has_tick = type(bolt).tick is not BasicBolt.tick
        self._sample_every = sample_every(context.conf["topology.stats.sample.rate"])
        self._until_sample = 0 if self._sample_every < NEVER else NEVER  # rows to skip before the next sample

    def open(self) -> None:
        self.is_open = True
        self.begin(self.bolt, "prepare", self.context.conf, self.context)

    def close(self) -> None:
        if self.is_open:
            self.tear_down(self.bolt, "cleanup")

    def renew(self) -> None:
        """Continue with a new copy of the bolt, as after a crash. Raises TaskFailedError if the copy fails to start."""
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
            TaskFailedError: ``execute`` raised anything but FailedException.
        """
        collector = self.collector
        execute: Callable[..., object] = self._method_for(origin)
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
                    self._emit_yielded(returned)
            except FailedException as error:
                self._fail(tup, error)
                failed += 1
                continue
            except (Exception, SystemExit) as error:
                raise self.failure(error, remedy_of(self.bolt)) from error
            if own is not None:
                for other, edge_there in own:
                    updates.add_ack(other, edge_there ^ collector.children)
            elif root:
                updates.add_ack(root, edge ^ collector.children)
            if at > sample_at:  # a failed row is not measured: the next acked row is measured instead
                sample_at = at - 1 + self._sample_every
                self.processed(origin, clock() - sampled_s)
        collector.root = 0
        collector.pairs = None
        if is_user:
            self._until_sample = sample_at - at
        self._count(origin, at - start, failed, clock() - started_s)
        return at - start

    def _method_for(self, origin: Origin) -> Callable[..., object]:
        is_tick = self._has_tick and origin.component == SYSTEM_COMPONENT
        return self._tick if is_tick else self.bolt.execute

    def _tick(self, tup: Tuple, collector: TaskBasicCollector) -> object:
        tick: Callable[[], object] = self.bolt.tick
        return tick()

    def _emit_yielded(self, returned: Any) -> None:
        """Emit the rows of a generator that ``execute`` returned; refuse any other result."""
        if type(returned) is GeneratorType:
            self.collector.emit_many(returned)
        else:
            self.refuse(self.bolt, "execute", returned)

    def _count(self, origin: Origin, executed: int, failed: int, elapsed_s: float) -> None:
        self.counters.count_executed(executed, failed, elapsed_s)
        if self.inputs is not None:
            self.inputs[origin].count_executed(executed, failed, elapsed_s)

    def _fail(self, tup: Tuple, error: FailedException) -> None:
        self.has_failed_tuples = True
        self.fail_trees([root for root, _ in tup.anchors], error)
        if isinstance(error, ReportedFailedException):
            self.report_error(error)
