"""StreamBuilder: a program of streams, which becomes an ordinary topology."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, overload

from tupletree import _pickling
from tupletree._stored_states import is_positioned
from tupletree._tracebacks import OursLeftOut
from tupletree._wire.value_types import register
from tupletree.backoff import Backoff
from tupletree.component import Spout
from tupletree.errors import TopologyError, UsageError
from tupletree.streams import local_run
from tupletree.streams.chained_spout import chained
from tupletree.streams.checks import advise_record
from tupletree.streams.drawing import Box, boxes, drawn
from tupletree.streams.edges import Edge
from tupletree.streams.explain import explained
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.heads import CombiningBolt, NarrowBolt, SourceChain
from tupletree.streams.history_rules import check_history
from tupletree.streams.parts import Part
from tupletree.streams.plan import Component, Plan
from tupletree.streams.sources import default_name, layout_of, pipeline_spout, spout_of
from tupletree.streams.steps import Chain
from tupletree.streams.stream import Stream
from tupletree.streams.timed_heads import Timed, with_late
from tupletree.streams.timed_operators import idle_timeout_ms, idle_timeouts_ms
from tupletree.streams.watermarks import FIELDS, WATERMARKS
from tupletree.topology import BoltDeclarer, Topology, TopologyBuilder

if TYPE_CHECKING:
    from tupletree.spark import Pipeline

T = TypeVar("T")

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]


class StreamBuilder:
    """A program: sources, and what becomes of their elements.

        builder = StreamBuilder()
        lines = builder.source(FileSpout("corpus"))
        lines.flat_map(str.split).key_by(lambda word: word).count().print()
        topology = builder.topology()

    ``parallelism``: the number of executors of each component, except sources, for which the program names none.

    Components are named by their operators: by ``name=``, or by the way to them, as in ``lines-count``. The name of an
    operator with a state does not depend on operators elsewhere in the program, so the state is found again when the
    program is edited.
    """

    def __init__(self, *, parallelism: int = 1) -> None:
        self._parallelism = parallelism
        self._sources: list[Operator] = []

    @overload
    def source(
        self, source: Spout, *, rows: type[T], name: str = "", parallelism: int = 1, retry: Backoff | None = None
    ) -> Stream[T]: ...

    @overload
    def source(
        self, source: Spout, *, name: str = "", parallelism: int = 1, retry: Backoff | None = None
    ) -> Stream[Any]: ...

    @overload
    def source(
        self,
        source: Callable[[], Iterable[T | None]],
        *,
        name: str = "",
        parallelism: int = 1,
        retry: Backoff | None = None,
    ) -> Stream[T]: ...

    @overload
    def source(
        self, source: Iterable[T], *, name: str = "", parallelism: int = 1, retry: Backoff | None = None
    ) -> Stream[T]: ...

    def source(
        self, source: Any, *, rows: Any = None, name: str = "", parallelism: int = 1, retry: Backoff | None = None
    ) -> Stream[Any]:
        """Add a source: a spout, a function without arguments that yields or returns elements, or a collection.

        A row of a spout with one field is its value; a row of several is an object of ``rows``, a NamedTuple or
        dataclass with the same fields, or else of the record that the spout declares, or else a named tuple.

        A generator function that has nothing now yields None, and is asked again a moment later; while it waits for
        something itself, what it has yielded waits too. Each task of a function or a collection would yield all
        elements: leave their parallelism at 1.

        ``retry``: the attempts at an element that fails, and the pauses between them; None: those of the spout, which
        for functions and collections have no end. What is given up is reported as an error. Not for exactly_once, where
        an element that fails takes the program back to its last checkpoint.

        Raises:
            UsageError: ``source`` is none of these, or its fields are not those of ``rows``.
        """
        spout = spout_of(source)
        layout = layout_of(spout, "source", rows)
        operator = Operator(
            Kind.SOURCE, name or default_name(source), "source", (), spout, layout, parallelism, {"retry": retry}
        )
        self._sources.append(operator)
        return Stream(self, operator)

    @overload
    def from_pipeline(
        self, pipeline: Pipeline, *, rows: type[T], name: str = "", retry: Backoff | None = None
    ) -> Stream[T]: ...

    @overload
    def from_pipeline(self, pipeline: Pipeline, *, name: str = "", retry: Backoff | None = None) -> Stream[Any]: ...

    def from_pipeline(
        self, pipeline: Pipeline, *, rows: Any = None, name: str = "", retry: Backoff | None = None
    ) -> Stream[Any]:
        """Add the results of a pipeline as a source: the rows of its committed batches, in the order of transactions.

        The pipeline is a topology of its own, submitted by itself, and may run before, beside or after the program. It
        needs a ParquetDirectory among its sinks, which is what the program reads.

        ``rows``: a NamedTuple or dataclass whose fields are the columns to read. Without it, the columns are those of
        the pipeline's ``outputs``. ``name``, ``retry``: as of ``source``.

        Guarantees are those of a source with positions. The rows of one transaction come in any order. The newest batch
        of an opaque pipeline waits for the next.

        Raises:
            UsageError: the pipeline has no ParquetDirectory, or no columns are named.
            TopologyError: the pipeline is faulty.
        """
        return self.source(pipeline_spout(pipeline, rows), rows=rows, name=name or "pipeline", retry=retry)

    def topology(self, guarantee: Guarantee = "at_least_once") -> Topology:
        """Return the program as a topology, to be submitted, simulated or run in a LocalCluster like any other.

        ``guarantee``: what is kept when a process dies or a message fails.

        *   ``at_most_once``: an element that is lost is not processed again. Without states.
        *   ``at_least_once``: each element takes effect, possibly more than once, also on states. Not guaranteed of
            windows and joins in event time: an element that is processed again can be late by then.
        *   ``exactly_once``: each element takes effect on states, and on sinks, exactly once, by aligned checkpoints.
            Every source must be able to go back to a position, and every sink to write with a checkpoint.

        Raises:
            UsageError: there is no source, or the guarantee cannot hold; the message says why.
            TopologyError: as ``TopologyBuilder``.
        """
        if guarantee not in get_args(Guarantee):
            raise UsageError(f"guarantee must be one of {', '.join(get_args(Guarantee))}, not {guarantee!r}")
        plan = self._plan()
        _check_guarantee(plan, guarantee)
        for component in plan.components:
            check_history(component.head, component.id, guarantee == "exactly_once")
        for record in plan.records:
            register(record)  # so that its objects travel, also inside of others, and are stored in states
        builder = TopologyBuilder()
        try:
            by_id = {component.id: component for component in plan.components}
            for component in plan.components:
                _add(builder, component, guarantee == "exactly_once", idle_timeouts_ms(component, by_id))
            topology = builder.create_topology()
        except TopologyError as error:
            _refuse_unpicklable(plan, error)
            for component in plan.components:
                advise_record(component.id, component.inputs, error)
            raise
        topology.conf.update(SETTINGS[guarantee])
        return topology

    def explain(self) -> str:
        """Return the components that the program becomes, the operators that run in each, and why each stands alone.

        Raises:
            UsageError: there is no source, or two operators with a state have one name.
        """
        return explained(self._plan())

    def graph(self) -> list[Box]:
        """Return the components as boxes of a picture, for those who draw them: see ``tupletree.streams.drawing``.

        Raises:
            UsageError: there is no source, or two operators with a state have one name.
        """
        return boxes(self._plan())

    def __repr__(self) -> str:
        """The components, in one line."""
        return f"<StreamBuilder: {self._shown(lambda plan: ', '.join(one.id for one in plan.components))}>"

    def _repr_html_(self) -> str:
        """The graph of components, for notebooks."""
        return self._shown(lambda plan: drawn(boxes(plan)), html.escape)

    def _shown(self, show: Callable[[Plan], str], quote: Callable[[str], str] = str) -> str:
        """Return the plan as ``show`` has it, or why there is none."""
        try:
            return show(self._plan())
        except UsageError as error:
            return quote(str(error))

    def run_local(
        self, *, seconds: float = 20, guarantee: Guarantee = "at_least_once", conf: dict[str, Any] | None = None
    ) -> None:
        """Run the program in threads of this process, until its sources are at their end, or for ``seconds``.

        ``seconds``: 0 for no limit but Ctrl-C, after which this method returns. A run that the default has cut off says
        so on standard error. ``conf``: settings of the topology.

        Raises:
            UsageError, TopologyError: as ``topology``.
            TaskFailedError: a function of the program raised.
        """
        with OursLeftOut(), contextlib.nullcontext() if seconds else contextlib.suppress(KeyboardInterrupt):
            local_run.run(self.topology(guarantee), seconds, conf or {}, lambda: False)

    def collect(self, stream: Stream[T], count: int, seconds: float = 20) -> list[T]:
        """Return the first elements of a stream: see ``Stream.collect``."""
        parent = stream.operator
        collector = local_run.Collector(parent.layout.has_key)
        added = Operator(Kind.PRINT, "", "collect", (parent,), collector, parent.layout)
        try:
            topology = self.topology()
        finally:
            parent.children.remove(added)
        return local_run.collect(collector, count, lambda is_over: local_run.run(topology, seconds, {}, is_over))

    def _plan(self) -> Plan:
        if not self._sources:
            raise UsageError("the program has no source: begin with builder.source(…)")
        return Plan(_in_order(self._sources), self._parallelism)


SETTINGS: Final[dict[Guarantee, dict[str, Any]]] = {
    "at_most_once": {"topology.acker.executors": 0},
    "at_least_once": {},
    "exactly_once": {"topology.state.checkpoint.aligned": True},
}


def _refuse_unpicklable(plan: Plan, error: TopologyError) -> None:
    """Raise a TopologyError that names the operator that cannot be pickled, if that is the error."""
    for component in plan.components:
        for one in component.operators if component.id == error.component else ():
            try:
                _pickling.dumps(one.argument)
            except Exception as cause:  # whatever user classes raise
                raise TopologyError(
                    f"{one.title} in '{component.id}' cannot be copied to its tasks: {cause}; let its function open "
                    f"what it uses when it is first called, or write a bolt for process",
                    component=component.id,
                ) from error


def _in_order(sources: list[Operator]) -> list[Operator]:
    """Return all operators, each after its parents."""
    found: dict[Operator, None] = {}
    waiting = list(reversed(sources))
    while waiting:
        one = waiting.pop()
        if one not in found and all(parent in found for parent in one.parents):
            found[one] = None
            waiting += reversed(one.children)
    return list(found)


def _check_guarantee(plan: Plan, guarantee: Guarantee) -> None:
    for component in plan.components:
        part = component.head.argument
        is_head = not component.is_narrow
        if guarantee == "at_most_once" and is_head and isinstance(part, Part) and part.is_stateful:
            raise UsageError(
                f"at_most_once cannot hold for '{component.id}', whose state is saved in checkpoints, which need acks: "
                f"use at_least_once, or a bolt with process that keeps its values in memory"
            )
        if guarantee != "exactly_once" or not is_head:
            continue
        if isinstance(part, Spout) and not is_positioned(part):
            raise UsageError(
                f"exactly_once cannot hold: source '{component.id}', a {type(part).__name__}, cannot go back to a "
                f"position, as it has no checkpoint_state and restore_state; use at_least_once, or another source"
            )
        if component.head.settings.get("retry") is not None:
            raise UsageError(
                f"exactly_once has no use for the retry of source '{component.id}': an element that fails takes the "
                f"program back to its last checkpoint; catch the error in the function that meets it"
            )
        if isinstance(part, Part) and part.hindrance:
            raise UsageError(f"exactly_once cannot hold: '{component.id}', {part.hindrance}")
        if isinstance(part, Part) and part.settles is False:
            raise UsageError(
                f"exactly_once cannot hold: sink '{component.id}' cannot write with a checkpoint; {part.instead}, or "
                f"at_least_once"
            )


def _add(builder: TopologyBuilder, component: Component, is_exact: bool, timeouts_ms: Mapping[str, int | None]) -> None:
    """Add a component to a topology. ``timeouts_ms``: the idle timeouts of those that send it their progress."""
    head, chain = component.head, component.chain or Chain(component.head.layout, ())
    if head.kind is Kind.SOURCE and not component.is_narrow:
        given: Spout = head.argument
        if component.chain is not None:
            outputs = {stream: layout.fields for stream, layout in chain.emits.items()}
            if chain.sends_watermarks:
                outputs[WATERMARKS] = FIELDS
            times = [idle_timeout_ms(one) for one in component.operators if one.kind is Kind.EVENT_TIME]
            longest = max((timeout for timeout in times if timeout is not None), default=None)
            given = chained(given, SourceChain(chain, longest), outputs)
        spout = builder.set_spout(component.id, given, component.parallelism)
        if head.settings.get("retry") is not None:
            spout.set_retry(head.settings["retry"])
        return
    if component.is_narrow:
        bolt: Any = CombiningBolt(chain, timeouts_ms) if component.combines else NarrowBolt(chain, timeouts_ms)
    else:
        bolt = head.argument.make(component.inputs, chain, is_exact)
        if isinstance(bolt, Timed):
            bolt._idle_timeouts_ms = timeouts_ms
        if component.late is not None:
            bolt = with_late(bolt, head.argument.late_stream, component.late)
    declarer = builder.set_bolt(component.id, bolt, component.parallelism)
    for edge in component.inputs:
        _group(declarer, component, edge)
    for source in component.watermarks:
        declarer.all_grouping(source, WATERMARKS)


def _group(declarer: BoltDeclarer, component: Component, edge: Edge) -> None:
    fields = component.fields(edge)
    if fields:
        declarer.fields_grouping(edge.component, fields, edge.stream)
    elif component.needs_all:
        declarer.shuffle_grouping(edge.component, edge.stream)
    else:
        declarer.local_or_shuffle_grouping(edge.component, edge.stream)
