"""The graph of a topology's components, as the tasks of a worker are built from it: pure, and made once a worker.

**Back edges.** An executor waits while a task that it feeds is congested. On a cycle each could wait for the other for
ever, so on every cycle one edge at least must not make its source wait: a *back edge*, which leads to a component on
the path from the spouts by which a depth-first search has come to its source. Without its back edges the graph has no
cycle, so some component with tuples is never waiting, and everything drains.

What a component gets by a back edge is bounded by its cycle's *entrances*: components outside the cycle (outside its
strongly connected component) that feed any component of it. An entrance waits while any component of the cycle that a
back edge leads to is congested. Since no component of the cycle can reach an entrance, that adds no circle of waiting.
While entrances wait, a cycle whose components hand on at most one tuple for each that they get holds no more than it
did; while they do not, each of its inboxes is within its bound. Together: never more than the sum of these bounds,
and what was under way. The bound does not hold for a cycle that makes two tuples of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tupletree.v1 import topology_pb2

Subscription = tuple[topology_pb2.ComponentSpec, topology_pb2.InputSpec]


class ComponentGraph:
    """Who feeds whom.

    ``order``: every component after those that feed it, leaving back edges aside; by name where that leaves a choice.
    """

    def __init__(self, spec: topology_pb2.TopologySpec) -> None:
        self._subscriptions: dict[tuple[str, str], list[Subscription]] = {}
        targets: dict[str, set[str]] = {component.id: set() for component in spec.components}
        for component in spec.components:
            for item in component.inputs:
                self._subscriptions.setdefault((item.source, item.stream), []).append((component, item))
                targets.setdefault(item.source, set()).add(component.id)
        self._targets = {source: sorted(found, reverse=True) for source, found in targets.items()}
        spouts = [one.id for one in spec.components if one.kind == topology_pb2.COMPONENT_KIND_SPOUT]
        self.order, self._back_edges = _searched([*sorted(spouts, reverse=True), *sorted(targets)], self._targets)
        self._cycle_of = _cycles(self.order, self._targets)
        self._back_targets: dict[int, list[str]] = {}  # by cycle
        for _, target in sorted(self._back_edges):
            found_targets = self._back_targets.setdefault(self._cycle_of[target], [])
            if target not in found_targets:
                found_targets.append(target)
        self._downstream: dict[str, frozenset[str]] = {}

    def subscriptions(self, component: str, stream: str) -> list[Subscription]:
        """Who subscribes to a stream, and how."""
        return self._subscriptions.get((component, stream), [])

    def is_back_edge(self, source: str, target: str) -> bool:
        """Whether tuples of ``source`` for ``target`` go on though ``target`` is congested."""
        return (source, target) in self._back_edges

    def waits_for(self, component: str) -> Iterator[str]:
        """The components whose congestion stops this one: those that it feeds, and heads of cycles that it enters."""
        cycles = set()
        for target in self._targets[component]:
            if not self.is_back_edge(component, target):
                yield target
            if self._cycle_of[target] != self._cycle_of[component]:
                cycles.add(self._cycle_of[target])
        for cycle in sorted(cycles):
            yield from self._back_targets.get(cycle, ())

    def downstream(self, component: str) -> frozenset[str]:
        """Every component that tuples of this one can reach; itself only if it is on a cycle."""
        if component not in self._downstream:
            found: set[str] = set()
            open_ends = list(self._targets[component])
            while open_ends:
                target = open_ends.pop()
                if target not in found:
                    found.add(target)
                    open_ends.extend(self._targets[target])
            self._downstream[component] = frozenset(found)
        return self._downstream[component]


def _searched(starts: Iterable[str], targets: Mapping[str, list[str]]) -> tuple[list[str], set[tuple[str, str]]]:
    """A depth-first search: components in an order without back edges, and the back edges. No recursion: a topology
    may be a chain of thousands."""
    finished: list[str] = []
    back_edges = set()
    state: dict[str, bool] = {}  # True while on the present path
    for start in starts:
        if start in state:
            continue
        state[start] = True
        path = [(start, iter(targets[start]))]
        while path:
            source, rest = path[-1]
            target = next(rest, None)
            if target is None:
                state[source] = False
                finished.append(source)
                path.pop()
            elif target not in state:
                state[target] = True
                path.append((target, iter(targets[target])))
            elif state[target]:
                back_edges.add((source, target))
    return finished[::-1], back_edges


def _cycles(order: list[str], targets: Mapping[str, list[str]]) -> dict[str, int]:
    """The strongly connected component of each component, as a number (Kosaraju; ``order`` is his first half)."""
    sources: dict[str, list[str]] = {component: [] for component in order}
    for source, found in targets.items():
        for target in found:
            sources[target].append(source)
    cycle_of: dict[str, int] = {}
    for number, start in enumerate(order):
        open_ends = [start]
        while open_ends:
            component = open_ends.pop()
            if component not in cycle_of:
                cycle_of[component] = number
                open_ends.extend(sources[component])
    return cycle_of
