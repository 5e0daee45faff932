"""From operators to components: which operators run together, and by what streams components are connected.

    source --+-- map -- filter -- key_by ==(by key)==> count -- map -- print
             +-- sink

A component has a *head*: a source, an operator that must see all elements of a key, a bolt of the user, or just the
output of another component. Every narrow operator runs with the head that its elements come from. What leaves the
component is an *edge*: the output of one operator on one stream, to any number of components.

An aggregation begins where its elements are: the component before it sends partial values, if it has only narrow
operators. A component of narrow operators stands after a source for this reason alone, or because the source's own
executors cannot run them, or if the number of its executors differs; after a bolt with operators of its own, if they
give event times.

Event times are given in components of narrow operators, which send the newest of them as their progress; or in a source
that tells of its partitions, whose progress is that of the partition that is furthest behind.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tupletree.errors import UsageError
from tupletree.outputs import PROGRESS_STREAM
from tupletree.streams.edges import Edge
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.layout import Layout
from tupletree.streams.parts import Part
from tupletree.streams.steps import Chain, Combine, Emit, Next, Step

DEFAULT: Final = "default"
PARTIAL: Final = Layout(has_key=True)
"""The layout of partial values."""


@dataclass(slots=True)
class Component:
    """One component of the topology.

    Attributes:
        id: its name in the topology.
        head: the operator that it begins with.
        is_narrow: it begins with the output of ``head``, which another component emits.
        chain: the narrow operators that run in it; None if its head cannot run any.
        operators: all operators in it, for people.
        inputs: what it subscribes to, by the operators whose output comes.
        parallelism: the number of executors.
        late: the layout in which it emits elements that come too late; None: they are dropped and reported.
        in_source: the operators that run in a source that tells of its partitions, if some of them give event times.
        needs_all: each executor must get elements, as one without them knows no event time, and holds back all others.
        watermarks: the components that send it their progress in event time.
        streams: the streams that it emits on.
    """

    id: str
    head: Operator
    is_narrow: bool
    parallelism: int
    chain: Chain | None = None
    operators: list[Operator] = field(default_factory=list)
    inputs: list[Edge] = field(default_factory=list)
    late: Layout | None = None
    in_source: frozenset[Operator] = frozenset()
    needs_all: bool = False
    watermarks: list[str] = field(default_factory=list)
    streams: dict[tuple[Operator, Layout], str] = field(default_factory=dict)

    @property
    def combines(self) -> bool:
        """True if it sends partial values."""
        return self.chain is not None and bool(self.chain.combines)

    def can_run(self, one: Operator) -> bool:
        """True if an operator behind one of this component can run in it. See the top for event times."""
        if self.in_source:
            return one in self.in_source or one.kind is Kind.CASE  # a branch runs with all its cases
        is_timed_here = self.is_narrow or one.kind is not Kind.EVENT_TIME
        return one.is_narrow and is_timed_here and one.parallelism in (None, self.parallelism)

    @property
    def kind(self) -> str:
        """The kind of component, for people."""
        if self.is_narrow:
            return "narrow operators, and partial values of what follows" if self.combines else "narrow operators"
        return self.head.title

    def fields(self, edge: Edge) -> list[str]:
        """Return the fields by which an input is grouped; empty if any task may take an element."""
        part = self.head.argument
        if self.is_narrow:
            return [edge.layout.key_field] if edge.layout.has_key else []
        return [edge.layout.key_field] if part.by_key else list(part.by_fields)

    def way(self, edge: Edge) -> str:
        """Return how an input is spread over the executors, for people."""
        fields = self.fields(edge)
        if fields:
            return f"by {', '.join(fields)}"
        return "to all executors in turn" if self.needs_all else "to any executor, in the same worker if there is one"

    def stream(self, one: tuple[Operator, Layout], name: str) -> str:
        """Return the stream of an output, of an operator or for one, in a layout. The first is the default stream."""
        if one not in self.streams:
            taken = [*self.streams.values(), PROGRESS_STREAM]
            name = DEFAULT if not self.streams else name if name not in taken else f"{name}-{len(taken)}"
            self.streams[one] = name
        return self.streams[one]


class Plan:
    """The components of a program.

    ``parallelism``: the number of executors of operators for which the program names none; sources have one.

    Raises UsageError if two operators would have one name, and one of them must keep its name.
    """

    def __init__(self, operators: Sequence[Operator], parallelism: int) -> None:
        self.components: list[Component] = []
        self.records = {one.layout.record: None for one in operators if one.layout.record is not None}
        self._parallelism = parallelism
        self._names: dict[Operator, str] = {}
        self._taken: set[str] = set()
        self._narrow: dict[tuple[Operator, int], Component] = {}
        self._inputs: dict[Operator, list[Edge]] = {one: [] for one in operators}
        heads = [one for one in operators if not one.is_narrow and one.kind is not Kind.LATE]
        for one in operators:
            if one.kind is Kind.LATE:
                self._names[one] = f"{self._names[one.parents[0]]}-late"  # of no component, but of those behind it
            elif not one.is_narrow:
                self._names[one] = self._named(one)
        for one in heads:
            self._place(one)
        for component in self.components:
            if not component.is_narrow:
                component.inputs = self._inputs[component.head]
        self._connect_watermarks()

    # Names

    def _named(self, one: Operator) -> str:
        name = one.name or (f"{self._origin(one)}-{one.title}" if one.parents else one.title)
        keeps_state = one.kind is Kind.SOURCE or _part(one, "is_stateful")
        if name in self._taken and (one.name or keeps_state):
            raise UsageError(
                f"two operators are named '{name}': give each a name of its own, as in {one.title}(…, name='…'), so "
                f"that its state is found again when the program changes"
            )
        return self._free(name)

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self._taken:
            number += 1
            free = f"{name}-{number}"
        self._taken.add(free)
        return free

    def _origin(self, one: Operator) -> str:
        """Return the name of the nearest operator before ``one`` that has one."""
        at = one.parents[0]
        while not at.name and at not in self._names:
            at = at.parents[0]
        return self._names.get(at) or at.name

    # Placing

    def _executors(self, one: Operator) -> int:
        return one.parallelism or (1 if one.kind is Kind.SOURCE else self._parallelism)

    def _place(self, head: Operator) -> None:
        component = Component(self._names[head], head, False, self._executors(head), operators=[head])
        self.components.append(component)
        late = [child for child in head.children if child.kind is Kind.LATE and child.children]
        results = [child for child in head.children if child.kind is not Kind.LATE]
        if head.kind is Kind.SOURCE and getattr(head.argument, "tells_partitions", False):
            component.in_source = self._timed_in_source(head, component.parallelism)
        if _part(head, "takes_chain") or component.in_source or self._can_run_in_source(head):
            component.chain = Chain(head.layout, self._steps(head, results, component))
        elif results:
            self._leave(head, results, Edge(component.id, DEFAULT, head.layout))
        for one in late:
            component.late = one.layout
            component.operators.append(one)
            self._leave(one, one.children, Edge(component.id, head.argument.late_stream, one.layout))

    def _can_run_in_source(self, head: Operator) -> bool:
        """True if the narrow operators after a source, and there are some, can run in the source's own executors.

        They cannot if there are to be more executors than the source has; if partial values are kept, for which the
        inputs must wait; or if event times are given, since a source does not send its progress. A flat_map could, but
        many tuples of one message cost a spout more than a bolt.
        """
        if head.kind is not Kind.SOURCE or not any(child.is_narrow for child in head.children):
            return False
        wanted = self._executors(head)
        waiting = list(head.children)
        while waiting:
            one = waiting.pop()
            if not one.is_narrow:
                if _part(one, "fold"):
                    return False
                continue
            if one.kind in (Kind.EVENT_TIME, Kind.FLAT_MAP) or (one.parallelism or self._parallelism) != wanted:
                return False
            waiting += one.children
        return True

    def _timed_in_source(self, head: Operator, executors: int) -> frozenset[Operator]:
        """Return the operators to run in a source that tells of its partitions; none if none gives event times.

        These are all on the way to event times, and beside and behind them what costs a source no more than a bolt.
        """
        ways = _ways_to_times(head, executors)
        found = set(ways)
        for one in [head, *ways] if ways else []:
            for child in one.children:
                default = executors if one.layout.has_time else self._parallelism
                light = _light(child, executors, default) if child.is_narrow and child not in found else None
                found.update(light or [])
        return frozenset(found)

    def _leave(self, one: Operator, children: Sequence[Operator], edge: Edge) -> None:
        """Connect what takes the output of an operator in another component."""
        narrow: dict[int, list[Operator]] = {}
        for child in children:
            if child.is_narrow:
                narrow.setdefault(self._narrow_executors(child, edge), []).append(child)
                continue
            reaching = replace(edge, side=child.parents.index(one))
            if reaching not in self._inputs[child]:
                self._inputs[child].append(reaching)
        for parallelism, group in narrow.items():
            self._place_narrow(one, group, edge, parallelism)

    def _narrow_executors(self, one: Operator, edge: Edge) -> int:
        """Return the number of executors of an operator in a component of narrow operators, which gets an edge.

        Where event times are given, there are no more than emit the elements: these stay in order, and reach each. So
        do they behind a source that gives event times.
        """
        sender = self._sender(edge)
        if one.parallelism or not (_leads_to_times(one) or (sender.in_source and edge.layout.has_time)):
            return one.parallelism or self._parallelism
        return min(self._parallelism, sender.parallelism)

    def _sender(self, edge: Edge) -> Component:
        return next(one for one in self.components if one.id == edge.component)

    def _place_narrow(self, one: Operator, children: Sequence[Operator], edge: Edge, parallelism: int) -> None:
        """Place a component of narrow operators, or connect it to one more source of its input (a merge)."""
        key = (one, parallelism)
        if key in self._narrow:
            if edge not in self._narrow[key].inputs:
                self._narrow[key].inputs.append(edge)
            return
        way = self._names.get(one, edge.component)
        name = next((child.name for child in children if child.name), f"{way}-{children[0].title}")
        component = self._narrow[key] = Component(self._free(name), one, True, parallelism, inputs=[edge])
        self.components.append(component)
        component.chain = Chain(edge.layout, self._steps(one, children, component))
        component.needs_all = component.chain.gives_times and parallelism > self._sender(edge).parallelism

    def _steps(self, one: Operator, children: Sequence[Operator], component: Component) -> tuple[Next, ...]:
        """Return what follows an operator in a component, and connect what leaves the component."""
        steps: list[Next] = []
        leaving: list[Operator] = []
        for child in children:
            if component.can_run(child):
                if child not in component.operators:
                    component.operators.append(child)
                steps.append(Step(child.kind, child.argument, self._steps(child, child.children, component)))
            elif component.is_narrow and _part(child, "fold"):
                stream = component.stream((child, PARTIAL), self._names[child])
                edge = Edge(component.id, stream, PARTIAL, is_partial=True)
                steps.append(Combine(edge.stream, child.argument.fold))
                self._leave(one, [child], edge)
            else:
                leaving.append(child)
        groups: dict[Layout, list[Operator]] = {}
        for child in leaving:
            groups.setdefault(_taken(one.layout, child), []).append(child)
        for layout, group in groups.items():
            edge = Edge(component.id, component.stream((one, layout), one.title), layout)
            steps.append(Emit(edge.stream, layout))
            self._leave(one, group, edge)
        return tuple(steps)

    def _connect_watermarks(self) -> None:
        """Let what waits for watermarks hear of the progress of all components that its elements come through."""
        by_id = {one.id: one for one in self.components}
        waiting = [one for one in self.components if not one.is_narrow and _part(one.head, "is_timed")]
        while waiting:
            component = waiting.pop()
            for edge in component.inputs:
                source = by_id[edge.component]
                if not edge.layout.has_time or source.id in component.watermarks:
                    continue
                component.watermarks.append(source.id)
                assert source.chain is not None
                if not source.chain.sends_watermarks:
                    source.chain = replace(source.chain, sends_watermarks=True)
                    if source.is_narrow and not source.chain.gives_times:
                        waiting.append(source)


def _ways_to_times(one: Operator, executors: int) -> list[Operator]:
    """Return the narrow operators behind ``one`` that give event times, or lead to such, in as many executors."""
    found: list[Operator] = []
    for child in one.children:
        if child.is_narrow and child.parallelism in (None, executors):
            beyond = _ways_to_times(child, executors)
            if beyond or child.kind is Kind.EVENT_TIME:
                found += [child, *beyond]
    return found


def _light(one: Operator, executors: int, default: int) -> list[Operator] | None:
    """Return a narrow operator and all that follow it, if they cost a source no more than a bolt; else None."""
    if one.kind in (Kind.EVENT_TIME, Kind.FLAT_MAP) or (one.parallelism or default) != executors:
        return None
    found = [one]
    for child in one.children:
        beyond = _light(child, executors, default) if child.is_narrow else None if _part(child, "fold") else []
        if beyond is None:
            return None
        found += beyond
    return found


def _leads_to_times(one: Operator) -> bool:
    """True if a narrow operator, or one that runs with it, gives event times."""
    return one.kind is Kind.EVENT_TIME or any(
        _leads_to_times(child) for child in one.children if child.is_narrow and not child.parallelism
    )


def _taken(layout: Layout, one: Operator) -> Layout:
    """Return the layout in which an operator takes elements."""
    part = one.argument
    if not isinstance(part, Part):
        return layout
    if not part.needs_value:
        return Layout(has_key=True, has_value=False)
    return layout.plain if part.is_plain else layout


def _part(one: Operator, attribute: str) -> bool:
    """True if the part of an operator has an attribute that is true; False if it has no part."""
    return isinstance(one.argument, Part) and bool(getattr(one.argument, attribute))
