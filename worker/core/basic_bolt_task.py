"""Tasks of basic bolts, which anchor and ack automatically.

``run_rows`` is the hot path of the whole system: a loop over the rows of a batch. Work that can be done once per
batch is kept out of the loop.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

from tupletree.component import BasicBolt, TopologyContext, remedy_of
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.tuples import SYSTEM_COMPONENT, Anchors, Origin, Tuple

from .basic_collector import TaskBasicCollector
from .batches import Rows
from .counts import NEVER, sample_every
from .output_streams import OutStream
from .task import Environment, Task

NO_TASKS = array("I")
Pairs = dict[int, Anchors]


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
        self._sampled_s = 0.0  # when the execution of the row that is measured began
        self.ran = self._ran_failed = 0  # rows executed, and those of them that failed, which are not counted yet
        self._alone = BasicBoltRows([self])

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

    def run(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Execute rows ``start`` to ``stop``, all for this task. Return the number executed (BasicBoltRows)."""
        return self._alone.run(rows, start, stop, origin)

    def run_rows(  # noqa: C901, no call for each row
        self, columns: list[list[Any]], roots: array[int], edges: array[int], pairs: Pairs, start: int, stop: int,
        origin: Origin,
    ) -> int:  # fmt: skip
        """Execute rows, all of one origin, and ack or fail each, until ``must_yield``. Return the number executed.

        Raises:
            TaskFailedError: ``execute`` raised anything but FailedException.
        """
        collector, updates = self.collector, self.updates
        execute = self._method_for(origin)
        sample_at = start + self._until_sample if origin.component != SYSTEM_COMPONENT else NEVER
        at = start
        while at < stop and not self.must_yield:
            if at >= sample_at:
                self._sampled_s = self._env.clock()
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
                self.processed(origin, self._env.clock() - self._sampled_s)
        collector.root = 0
        collector.pairs = None
        self.ran += at - start
        if sample_at < NEVER:
            self._until_sample = sample_at - at
        return at - start

    def count_rows(self, origin: Origin, row_s: float) -> None:
        """Count the rows that were run since the last call, at this time for each."""
        executed, failed, elapsed_s = self.ran, self._ran_failed, self.ran * row_s
        self.ran = self._ran_failed = 0
        self.counters.count_executed(executed, failed, elapsed_s)
        if self.inputs is not None:
            self.inputs[origin].count_executed(executed, failed, elapsed_s)

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

    def _fail(self, tup: Tuple, error: FailedException) -> None:
        self._ran_failed += 1
        self.has_failed_tuples = True
        self.fail_trees([root for root, _ in tup.anchors], error)
        if isinstance(error, ReportedFailedException):
            self.report_error(error)


class BasicBoltRows:
    """Execution of rows by basic bolts of one component: each row by the task that it is for.

    ``current``: the task whose bolt is called, or was called last. The tasks use the same updates.
    """

    __slots__ = ("_first", "_tasks", "current")

    def __init__(self, tasks: Sequence[BasicBoltTask]) -> None:
        ids = [task.task_id for task in tasks]
        self.current = tasks[0]
        self._first = min(ids)
        self._tasks: list[BasicBoltTask] = [tasks[0]] * (max(ids) + 1 - self._first)  # by task id
        for task in tasks:
            self._tasks[task.task_id - self._first] = task

    def run(self, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Execute rows ``start`` to ``stop`` and ack or fail each, until ``must_yield``. Return the number executed.

        Rows without ``targets`` are for ``current``.

        Raises:
            TaskFailedError: ``execute`` raised anything but FailedException.
        """
        columns, roots, edges, pairs = rows.columns, rows.roots, rows.edges, rows.pairs
        is_mixed, has_sources = rows.targets is not None, rows.sources is not None
        targets = NO_TASKS if rows.targets is None else rows.targets
        sources = NO_TASKS if rows.sources is None else rows.sources
        task = self.current
        clock = task._env.clock
        started_s = clock()
        ran: list[BasicBoltTask] = []
        at = start
        while at < stop:
            end = stop if not is_mixed and not has_sources else at + 1
            if has_sources:
                origin = origin.of_task(sources[at])
            if is_mixed:
                task = self._tasks[targets[at] - self._first]
                self.current = task
            while (
                end < stop
                and (not is_mixed or targets[end] == targets[at])
                and (not has_sources or sources[end] == sources[at])
            ):
                end += 1
            is_new = task.ran == 0
            done = task.run_rows(columns, roots, edges, pairs, at, end, origin)
            if is_new:
                ran.append(task)
            at += done
            if at < end:
                break  # the task must yield
        row_s = (clock() - started_s) / max(1, at - start)
        for one in ran:
            one.count_rows(origin, row_s)
        return at - start
