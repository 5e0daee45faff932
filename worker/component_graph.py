"""The graph of a topology's components, from which the tasks of a worker are built. Pure; made once per worker.

**Back edges.** An executor waits while a task that it feeds is congested. On a cycle, executors could wait for each
other forever. So on every cycle at least one edge must not make its source wait: a *back edge*. A back edge leads to a
component on the path from the spouts by which a depth-first search reached the edge's source. Without its back edges
the graph is acyclic, so at least one component with tuples is not waiting, and everything drains.

The tuples that a component receives over a back edge are bounded by means of its cycle's *entrances*: components
outside the cycle (outside its strongly connected component) that feed any component of the cycle. An entrance waits
while any component of the cycle that a back edge leads to is congested. No component of the cycle can reach an
entrance, so this adds no circular wait. While the entrances wait, a cycle whose components emit at most one tuple per
tuple received does not grow. While the entrances do not wait, each inbox of the cycle is within its bound. Together:
a cycle never holds more than the sum of these bounds plus the tuples in flight. The bound does not hold for a cycle
whose components emit two tuples per tuple received.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Iterator, Mapping

from tupletree.v1 import topology_pb2

Subscription = tuple[topology_pb2.ComponentSpec, topology_pb2.InputSpec]


class ComponentGraph:
    """The components of a topology and the streams between them.

    ``order``: the components in topological order, ignoring back edges; ties are broken by name.
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
        """Return the subscribers of a stream, with their groupings."""
        return self._subscriptions.get((component, stream), [])

    def is_back_edge(self, source: str, target: str) -> bool:
        """True if ``source`` keeps sending to ``target`` while ``target`` is congested."""
        return (source, target) in self._back_edges

    def waits_for(self, component: str) -> Iterator[str]:
        """Yield the components whose congestion stops ``component``: targets, back-edge targets of cycles it feeds."""
        for target in self._targets[component]:
            if not self.is_back_edge(component, target):
                yield target
        yield from self.back_targets(component)

    def back_targets(self, component: str) -> Iterator[str]:
        """Yield the components that back edges lead to, of the cycles that ``component`` feeds from outside."""
        cycles = {self._cycle_of[target] for target in self._targets[component]} - {self._cycle_of[component]}
        for cycle in sorted(cycles):
            yield from self._back_targets.get(cycle, ())

    def downstream(self, component: str) -> frozenset[str]:
        """Return every component reachable from this component, including itself only if it is on a cycle."""
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
    """Return the components in topological order (ignoring back edges), and the back edges.

    The depth-first search is not recursive: a topology may be a chain of thousands of components.
    """
    finished: list[str] = []
    back_edges = set()
    state: dict[str, bool] = {}  # True while on the current path
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
    """Return the number of each component's strongly connected component.

    The algorithm is Kosaraju's; ``order`` is the result of its first pass.
    """
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
