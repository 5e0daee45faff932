"""Components that run the operators of a program: what the plan puts into a topology.

Each has a ``Chain``: the narrow operators that run with it. Its code is made in ``setup``, once per task.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree._chained import Emit, Row
from tupletree.collector import BasicCollector, BoltCollector
from tupletree.component import RAISE_FAILED, BasicBolt, Bolt, StatefulBolt, TopologyContext
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.keyed.partition_times import PartitionTimes
from tupletree.streams.code import ARGUMENTS, At, Code, counted_texts, folded_text, read, read_row
from tupletree.streams.edges import Edge
from tupletree.streams.elements import ATOMS, check_pair, own_copy, second
from tupletree.streams.history import ParquetHistory, forget_share
from tupletree.streams.steps import Chain, Fold, passes_on
from tupletree.streams.watermarks import CONF, ENDING, FIELDS, WATERMARKS, Newest, Passing, progress_of
from tupletree.tuples import Tuple

DEFAULT: Final = "default"


def declare(chain: Chain, declarer: Any) -> None:
    """Declare the streams that a chain emits on."""
    for stream, layout in chain.emits.items():
        declarer.declare_stream(stream, layout.fields)
    if chain.sends_watermarks:
        declarer.declare_stream(WATERMARKS, FIELDS)


def basic_emits(chain: Chain) -> dict[str, str]:
    """Return the texts of emits that are anchored by the framework."""
    return {one: "emit({row})" if one == DEFAULT else f"emit({{row}}, stream={one!r})" for one in chain.emits}


def basic_emits_rows(chain: Chain) -> dict[str, str]:
    """Return the texts of emits of several rows that are anchored by the framework."""
    return {one: f"emit_many({{rows}}, {one!r})" for one in chain.emits}


def anchored_emits(chain: Chain) -> dict[str, str]:
    """Return the texts of emits that are anchored to ``a``."""
    return {one: "emit({row}, a)" if one == DEFAULT else f"emit({{row}}, a, {one!r})" for one in chain.emits}


def follower(chain: Chain, code: Code, title: str) -> Callable[..., None]:
    """Return what follows the results of a bolt that anchors by itself: a function of (key, time, value)."""
    code.add(0, "def run(k, t, v, a=None):")
    code.then(chain.then, ARGUMENTS, 1)
    run: Callable[..., None] = code.compiled(title)
    return run


class SourceChain:
    """Runs narrow operators on each row of a source, in the source's own executor (chained_spout.py).

    ``idle_timeout_ms``: of the event times that it gives.
    """

    def __init__(self, chain: Chain, idle_timeout_ms: int | None = None) -> None:
        self.chain = chain
        self.idle_timeout_ms = idle_timeout_ms
        self._times: PartitionTimes | None = None

    def setup(self, context: TopologyContext) -> None:
        self._title = context.component_id
        if self.chain.sends_watermarks:
            self._times = context.source_progress = PartitionTimes(self.idle_timeout_ms)

    def bind(self, emit: Emit) -> Callable[[Row], None]:
        code = Code({one: f"emit({one!r}, {{row}})" for one in self.chain.emits}, emit=emit)
        if self._times is not None:
            code.newest = self._times.newest
        code.add(0, "def run(a):")
        code.then(self.chain.then, read_row(code, self.chain.layout, 1), 1)
        run: Callable[[Row], None] = code.compiled(self._title)
        return run

    def teardown(self) -> None:
        pass


class _Narrow:
    """The common part of the bolts of narrow operators: their streams, and their progress in event time.

    ``idle_timeouts_ms``: of the components that send their progress in event time.

    Attributes:
        end_of_input: to be called when all sources are at their end, so that nothing can be late any more; None if the
            bolt does not follow event time.
    """

    context: TopologyContext
    collector: Any
    end_of_input: Callable[[], None] | None = None
    _progress: Passing | Newest | None = None

    def __init__(self, chain: Chain, idle_timeouts_ms: Mapping[str, int | None]) -> None:
        self.chain = chain
        self.idle_timeouts_ms = idle_timeouts_ms

    def declare_output_fields(self, declarer: Any) -> None:
        declare(self.chain, declarer)

    def _follow_time(self, code: Code) -> None:
        """Begin to follow event time, if others wait for it. The code is still to be written."""
        if self.chain.sends_watermarks:
            self._progress = progress_of(self.chain, code, self.context, self.idle_timeouts_ms)
            self.end_of_input = self._end

    def _send_progress(self) -> None:
        for time in [] if self._progress is None else self._progress.report():
            self.collector.emit([time], stream=WATERMARKS)

    def _end(self) -> None:
        assert self._progress is not None
        self._progress.end()
        self._send_progress()


class NarrowBolt(_Narrow, BasicBolt):
    """Runs narrow operators on each element."""

    def component_configuration(self) -> Mapping[str, Any]:
        return CONF if self.chain.sends_watermarks else {}

    def setup(self) -> None:
        code = Code(basic_emits(self.chain), emit=self.collector.emit, emit_many=self.collector.emit_many)
        code.emits_rows = basic_emits_rows(self.chain)
        self._follow_time(code)
        code.add(0, "def run(a, collector):")
        code.then(self.chain.then, read(code, self.chain.layout, 1), 1)
        self._run = code.compiled(self.context.component_id)
        is_passing = isinstance(self._progress, Passing)
        self.execute = self._execute_timed if is_passing else self._run  # type: ignore[method-assign]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Replaced in ``setup`` by the code of the operators."""
        raise NotImplementedError

    def _execute_timed(self, tup: Tuple, collector: BasicCollector) -> None:
        assert isinstance(self._progress, Passing)
        if self._progress.came(tup):
            self._run(tup, collector)
        elif self._progress.time() > ENDING:
            self._send_progress()

    def tick(self) -> None:
        self._send_progress()


class CombiningBolt(_Narrow, Bolt):
    """Runs narrow operators on each element, and keeps partial values of aggregations, which it emits periodically.

    As a CombinerBolt does: partial values are emitted after ``held`` inputs, and at each tick. They form a tree of
    their own, and the inputs are acked when that is complete. Where the pending messages of spouts are limited, fewer
    are held, so that spouts need not wait for the tick.
    """

    _remedy = RAISE_FAILED
    holds_tuples = True
    held: int = 5000
    interval_s: float = 0.05

    def component_configuration(self) -> Mapping[str, Any]:
        return {"topology.tick.tuple.freq.secs": self.interval_s}

    def setup(self) -> None:
        self._inputs: list[Tuple] = []
        pending = self.context.conf.get("topology.max.spout.pending")
        if pending is not None:
            tasks = len(self.context.component_tasks(self.context.component_id))
            self.held = max(1, min(self.held, pending // (2 * tasks)))
        if not self._count_texts():
            with batch_code(self.chain, self.collector) as code:
                self._follow_time(code)
                code.then(self.chain.then, read(code, self.chain.layout, 3), 3)
            self._partials = code.partials
            self._run = code.compiled(self.context.component_id)

    def _count_texts(self) -> bool:
        """Count a batch by one call, if nothing is done with texts but to count them. Return False if there is more."""
        splits = counted_texts(self.chain.then)
        if splits is None or self.chain.layout.record is not None or self.chain.sends_watermarks:
            return False
        counts: Counter[str] = Counter()
        field = self.chain.layout.value_fields[0]

        def run(tuples: list[Tuple]) -> list[Tuple]:
            counts.update(itertools.chain.from_iterable([splits(tup[field]) for tup in tuples]))
            return tuples

        self._partials = dict.fromkeys(self.chain.combines, counts)
        self._run = run
        return True

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if tuples[0].is_tick:
            self._emit()
            self._send_progress()
            return
        if isinstance(self._progress, Passing):
            elements = list(filter(self._progress.came, tuples))
            if not elements:
                self.collector.ack_many(tuples)
                if self._progress.time() > ENDING:
                    self._send_progress()
                return
        self._inputs += self._run(tuples)
        if len(self._inputs) >= self.held:
            self._emit()

    def _emit(self) -> None:
        if not self._inputs:
            return
        inputs, self._inputs = self._inputs, []
        is_empty = True
        for stream, partials in self._partials.items():
            if partials:
                is_empty = False
                self.collector.emit_combined(partials.items(), inputs, stream)
                partials.clear()
        if is_empty:
            self.collector.ack_many(inputs)


class KeyedHead(StatefulBolt):
    """A bolt with a value per key, in the state. A subclass writes what is done with an element.

    ``history``: the values that the state begins with. ``merge``: see ParquetHistory.
    """

    is_divisible = True
    _remedy = RAISE_FAILED
    merge: Callable[[Any, Any], Any] | None = None

    def __init__(self, inputs: Sequence[Edge], chain: Chain, history: ParquetHistory | None) -> None:
        self.given = {(one.component, one.stream): one for one in inputs}
        self.chain = chain
        self.history = history

    def declare_output_fields(self, declarer: Any) -> None:
        declare(self.chain, declarer)

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        if self.history is not None:
            self.history.load(state, self.context, self.merge)
        self._runs = {source: self._code(edge) for source, edge in self.given.items()}

    def post_commit(self, txid: int, state: Any) -> None:
        if self.history is not None:
            forget_share(self.history, self.context)

    def execute_batch(self, tuples: list[Tuple]) -> None:
        first = tuples[0]
        if first.is_tick:
            return
        self.collector.ack_many(self._runs[first.source_component, first.source_stream](tuples))

    def _code(self, edge: Edge) -> Callable[[list[Tuple]], list[Tuple]]:
        """Return the function that processes a batch of one input."""
        with batch_code(self.chain, self.collector) as code:
            state = self.state
            code.names.update(get=state.get, put=state.put, delete=state.delete, add=state.add, missing=object())
            at = read(code, edge.layout, 3)
            self._write(code, at, edge)
            code.then(self.chain.then, at, 3)
        run: Callable[[list[Tuple]], list[Tuple]] = code.compiled(self.context.component_id)
        return run

    def _write(self, code: Code, at: At, edge: Edge) -> None:
        """Write the lines, at depth 3, that process the element ``v`` of key ``k`` and set ``v`` to the result."""
        raise NotImplementedError


class AggregateBolt(KeyedHead):
    """Adds each element, or partial value, to the value of its key, and hands each new value on."""

    def __init__(self, fold: Fold, inputs: Sequence[Edge], chain: Chain, history: ParquetHistory | None) -> None:
        super().__init__(inputs, chain, history)
        self.fold = fold
        self.merge = operator.add if fold.is_sum else fold.merge

    def _write(self, code: Code, at: At, edge: Edge) -> None:
        if self.fold.is_sum:
            code.add(3, f"v = add({at.key}, {1 if self.fold.is_count and not edge.is_partial else 'v'})")
            return
        code.add(3, f"s = get({at.key}, missing)")
        code.add(3, f"v = {self._new_value(code, edge.is_partial)}")
        if self.fold.add is second or not passes_on(self.chain.then):
            code.add(3, f"put({at.key}, v)")
            return
        code.names.update(atoms=ATOMS, own_copy=own_copy)  # add may change the value that was handed on
        code.add(3, f"put({at.key}, v if type(v) in atoms else own_copy(v))")

    def _new_value(self, code: Code, is_partial: bool) -> str:
        fold = self.fold
        if is_partial:
            return f"v if s is missing else {code.function(fold.merge)}(s, v)"
        return folded_text(code, fold, "s", "s is not missing", ARGUMENTS)


class UpdateStateBolt(KeyedHead):
    """Calls a function with the state and the element, which returns the new state and a result."""

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        inputs: Sequence[Edge],
        chain: Chain,
        history: ParquetHistory | None,
    ) -> None:
        super().__init__(inputs, chain, history)
        self.function = function
        self.merge = second

    def _write(self, code: Code, at: At, edge: Edge) -> None:
        code.names.update(check_pair=check_pair, own_copy=own_copy)
        code.add(3, f"r = {code.function(self.function)}(get({at.key}, None), v)")
        code.add(3, "if type(r) is not tuple or len(r) != 2:")
        code.add(4, "check_pair(r)")
        code.add(3, "s, v = r")
        code.add(3, "if s is None:")
        code.add(4, f"delete({at.key})")
        code.add(3, "else:")
        code.add(4, f"put({at.key}, own_copy(s) if s is v else s)")  # the function may change its state


@contextlib.contextmanager
def batch_code(chain: Chain, collector: BoltCollector) -> Iterator[Code]:
    """Write a function of a batch around lines of depth 3, which process the tuple ``a``.

    The function fails a tuple for which the lines raise FailedException, and returns the other tuples.
    """

    def fail(tup: Tuple, error: FailedException) -> None:
        collector.fail(tup, error)
        if isinstance(error, ReportedFailedException):
            collector.report_error(error)

    code = Code(anchored_emits(chain), emit=collector.emit, fail=fail, Failed=FailedException)
    code.add(0, "def run(tuples):")
    code.add(1, "failed = []")
    code.add(1, "for a in tuples:")
    code.add(2, "try:")
    yield code
    code.add(2, "except Failed as error:")
    code.add(3, "fail(a, error)")
    code.add(3, "failed.append(a)")
    code.add(1, "return [a for a in tuples if a not in failed] if failed else tuples")
