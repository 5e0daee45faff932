"""Cycles of components: who waits for whom. Nobody waits forever, and what goes round stays bounded."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import DoBasic, Log

from tupletree import Spout, TopologyBuilder
from tupletree.v1 import topology_pb2
from tupletree.worker.component_graph import ComponentGraph

SPOUT, BOLT = topology_pb2.COMPONENT_KIND_SPOUT, topology_pb2.COMPONENT_KIND_BOLT


def spec_of(edges: list[tuple[str, str]]) -> topology_pb2.TopologySpec:
    """Components by their edges; those whose names begin with s are spouts."""
    spec = topology_pb2.TopologySpec()
    for name in sorted({name for edge in edges for name in edge}):
        inputs = [topology_pb2.InputSpec(source=source, stream="default") for source, to in edges if to == name]
        spec.components.add(id=name, kind=SPOUT if name.startswith("s") else BOLT, inputs=inputs)
    return spec


def back_edges(edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    graph = ComponentGraph(spec_of(edges))
    return [edge for edge in edges if graph.is_back_edge(*edge)]


def waits(graph: ComponentGraph, component: str) -> set[str]:
    return set(graph.waits_for(component))


def test_the_edge_that_leads_back_is_the_one_against_the_way_from_the_spout() -> None:
    assert back_edges([("s", "a"), ("a", "b"), ("b", "a"), ("b", "c")]) == [("b", "a")]
    assert back_edges([("s", "z"), ("z", "b"), ("b", "z")]) == [("b", "z")]
    assert back_edges([("s", "a"), ("a", "a")]) == [("a", "a")]
    assert back_edges([("s", "a"), ("a", "b"), ("s", "b"), ("b", "c"), ("a", "c")]) == []


def test_components_are_ordered_by_the_way_from_the_spouts() -> None:
    assert ComponentGraph(spec_of([("s", "z"), ("z", "b"), ("b", "z"), ("b", "a")])).order == ["s", "z", "b", "a"]


def test_an_entrance_anywhere_waits_for_what_the_cycle_leads_back_to() -> None:
    """ "s1" feeds only "b"; but all that it adds may gather in front of "a"."""
    graph = ComponentGraph(spec_of([("s2", "a"), ("a", "b"), ("b", "a"), ("s1", "x"), ("x", "b"), ("b", "out")]))
    assert {name: waits(graph, name) for name in graph.order} == {
        "s2": {"a"}, "s1": {"x"}, "x": {"b", "a"}, "a": {"b"}, "b": {"out"}, "out": set(),
    }  # fmt: skip


def test_a_chain_of_thousands_is_no_matter() -> None:
    names = ["s", *(f"b{number:05}" for number in range(1000))]
    graph = ComponentGraph(spec_of([*itertools.pairwise(names), (names[-1], names[1])]))
    assert graph.order == names
    assert graph.is_back_edge(names[-1], names[1])
    assert len(graph.downstream("s")) == 1000


LIMIT = 20


class Model:
    """Components with inboxes that only count, spread over workers that hear of congestion late or at once.

    A step takes a row and hands on at most one to a component that it feeds. What cannot be told from this model is
    the order of tuples, which nobody waits for.
    """

    def __init__(self, rng: random.Random, edges: list[tuple[str, str]], workers: int) -> None:
        self.rng = rng
        self.graph = ComponentGraph(spec_of(edges))
        self.targets = {name: [to for source, to in edges if source == name] for name in self.graph.order}
        self.spouts = [name for name in self.graph.order if name.startswith("s")]
        self.worker = {name: rng.randrange(workers) for name in self.graph.order}
        self.rows: Counter[str] = Counter()
        self.congested: set[str] = set()
        self.heard: list[set[str]] = [set() for _ in range(workers)]
        self.most = 0

    def announce(self, worker: int) -> None:
        """Let a worker hear of all others; of its own tasks it knows at once."""
        self.heard[worker] = set(self.congested)

    def put(self, target: str, rows: int) -> None:
        self.rows[target] += rows
        if self.rows[target] > LIMIT:
            self.congested.add(target)
        elif self.rows[target] <= LIMIT // 2:
            self.congested.discard(target)
        own = {name for name in self.congested if self.worker[name] == self.worker[target]}
        others = {name for name in self.heard[self.worker[target]] if self.worker[name] != self.worker[target]}
        self.heard[self.worker[target]] = own | others
        self.most = max(self.most, self.rows[target])

    def step(self, name: str) -> bool:
        """True if the component had something to do, and was let."""
        is_spout = name in self.spouts
        if not (is_spout or self.rows[name]) or waits(self.graph, name) & self.heard[self.worker[name]]:
            return False
        if not is_spout:
            self.put(name, -1)
        if self.targets[name] and (is_spout or self.rng.random() < 0.9):
            self.put(self.rng.choice(self.targets[name]), 1)
        return True

    def is_stuck(self) -> bool:
        """True if rows wait and nobody may take one, though everybody has heard everything."""
        for worker in range(len(self.heard)):
            self.announce(worker)
        waiting = [name for name in self.graph.order if self.rows[name]]
        return bool(waiting) and not any(self.step(name) for name in waiting)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(15))
def test_whatever_the_cycles_nothing_gets_stuck_and_what_waits_is_bounded(seed: int, workers: int) -> None:
    rng = random.Random(seed)
    bolts = [f"b{number}" for number in range(rng.randint(1, 6))]
    edges = {(rng.choice(["s1", "s2"]), rng.choice(bolts)) for _ in range(rng.randint(1, 3))}
    edges |= {(rng.choice(bolts), rng.choice(bolts)) for _ in range(rng.randint(1, 12))}
    model = Model(rng, sorted(edges), workers)
    eager = [*model.spouts * 20, *model.graph.order]  # far more comes than can be done
    for count in range(4000):
        model.step(rng.choice(eager))
        if count % 50 == 0:
            assert not model.is_stuck()
    late = 50 + len(model.graph.order)  # rows that may enter until all have heard, which is every 50 steps
    assert model.most <= (LIMIT + late) * (len(bolts) + 1)
    model.spouts.clear()
    for name in list(model.targets):
        if name.startswith("s"):
            model.targets[name] = []
    while model.rows.total():
        assert not model.is_stuck()


class Endless(Spout):
    """Emits numbers forever, without message ids: nothing but back-pressure stops it."""

    outputs = ["n"]

    def next_tuple(self) -> None:
        self.collector.emit([1])


@pytest.mark.parametrize("slow", ["a", "b"])
def test_a_slow_bolt_on_a_cycle_stops_the_spout_and_bounds_what_waits(slow: str) -> None:
    """spout -> a -> b -> a, and 10 % go back: with untracked tuples nothing else bounds them."""
    limit, batch = 200, 20
    done = Log()

    def back(tup: Any, collector: Any) -> None:
        done.append(1)
        if len(done) % 10 == 0:
            collector.emit([2])

    builder = TopologyBuilder()
    builder.set_spout("spout", Endless())
    relay = DoBasic(lambda tup, collector: collector.emit([1]), ["n"])
    builder.set_bolt("a", relay).shuffle_grouping("spout").shuffle_grouping("b")
    builder.set_bolt("b", DoBasic(back, ["n"])).shuffle_grouping("a")
    conf = {"topology.executor.receive.buffer.size": limit, "topology.transfer.batch.size": batch}
    hand = HandDriven(builder.create_topology(), conf, is_tracked=False)
    most = 0
    for count in range(6000):
        for name in ("spout", "a", "b"):
            if name != slow or count % 10 == 0:
                hand.step(name)
        most = max(most, *(hand.executor(name).inbox.rows for name in "ab"))
    assert limit < most <= 2 * (limit + 2 * batch)
    assert len(done) > 3000
    hand.executor("spout").wants_active = False  # type: ignore[attr-defined]
    for _ in range(2000):
        hand.step("a")
        hand.step("b")
    assert [hand.executor(name).inbox.rows for name in "ab"] == [0, 0]
