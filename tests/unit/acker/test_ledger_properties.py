"""Whatever the tree, whatever the order, however updates are combined: one verdict, and never too early.

The judge is a naive model that has no XOR in it: it remembers which edges of a tree were created and which were acked.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.acker.ledger import Ledger, Verdicts

SPOUT = 4


@dataclass
class Update:
    """One message to the acker about `root`, with the edges that it creates and acks spelled out."""

    root: int
    created: frozenset[int]
    acked: frozenset[int]
    task: int | None = None  # set: an init

    @property
    def value(self) -> int:
        value = 0
        for edge in [*self.created, *self.acked]:
            value ^= edge
        return value


def random_tree(rng: random.Random, roots: list[int], size: int) -> list[Update]:
    """A random DAG over `roots`: each bolt acks one or two tuples and emits up to three, anchored to some of them."""
    updates: list[Update] = []
    waiting: list[dict[int, int]] = []  # tuples not yet acked: root -> edge
    for root in roots:
        first = {rng.getrandbits(64): None for _ in range(rng.randint(0, 3))}
        updates.append(Update(root, frozenset(first), frozenset(), task=SPOUT + root % 3))
        waiting += [{root: edge} for edge in first]
    while waiting:
        inputs = [waiting.pop(rng.randrange(len(waiting))) for _ in range(min(len(waiting), rng.randint(1, 2)))]
        created: list[dict[int, set[int]]] = [{} for _ in inputs]
        for _ in range(rng.randint(0, 3) if size > 0 else 0):
            size -= 1
            anchors = rng.sample(range(len(inputs)), rng.randint(1, len(inputs)))
            carried: dict[int, int] = {}
            for anchor in anchors:  # as in Storm: one fresh edge for each anchor, combined for each root
                edge = rng.getrandbits(64)
                for root in inputs[anchor]:
                    created[anchor].setdefault(root, set()).add(edge)
                    carried[root] = carried.get(root, 0) ^ edge
            waiting.append(carried)
        for given_tuple, children in zip(inputs, created, strict=True):
            updates += [
                Update(root, frozenset(children.get(root, ())), frozenset({edge})) for root, edge in given_tuple.items()
            ]
    return updates


@dataclass
class Naive:
    """Tracks outstanding edges as a set of terms: a tree is done when each created term was acked."""

    outstanding: dict[int, set[int]] = field(default_factory=dict)
    seen_init: set[int] = field(default_factory=set)

    def take(self, update: Update, terms: dict[int, frozenset[int]]) -> bool:
        """True if the tree is complete now. A combined edge (two anchors, one root) stands for its terms."""
        open_edges = self.outstanding.setdefault(update.root, set())
        for edge in [*update.created, *update.acked]:
            for term in terms.get(edge, frozenset({edge})):
                open_edges ^= {term}
        if update.task is not None:
            self.seen_init.add(update.root)
        return update.root in self.seen_init and not open_edges


def combined_terms(updates: list[Update]) -> dict[int, frozenset[int]]:
    """For every acked edge that is an XOR of several created ones: which. Found by search over pairs, no algebra."""
    created = {edge for update in updates for edge in update.created}
    terms: dict[int, frozenset[int]] = {}
    for update in updates:
        for edge in update.acked - created:
            terms[edge] = next(frozenset({one, edge ^ one}) for one in created if edge ^ one in created)
    return terms


def apply(ledger: Ledger, updates: list[Update]) -> Verdicts:
    """One batch; acks of one root are combined into one value, as a worker's flush does."""
    inits = [update for update in updates if update.task is not None]
    acks: dict[int, int] = {}
    for update in updates:
        if update.task is None:
            acks[update.root] = acks.get(update.root, 0) ^ update.value
    return ledger.apply(
        array("Q", [update.root for update in inits]),
        array("Q", [update.value for update in inits]),
        array("I", [update.task or 0 for update in inits]),
        array("Q", acks.keys()),
        array("Q", acks.values()),
        array("Q"),
        array("Q"),
        0.0,
    )


def acked_of(verdicts: Verdicts) -> dict[int, int]:
    assert not verdicts.failed
    assert not verdicts.expired
    return {root: task for task, roots in verdicts.acked.items() for root in roots}


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 40), st.data())
def test_any_order_and_any_combination_gives_one_verdict(seed: int, trees: int, size: int, data: st.DataObject) -> None:
    rng = random.Random(seed)
    roots = [rng.getrandbits(64) for _ in range(trees)]
    updates = random_tree(rng, roots, size)
    terms = combined_terms(updates)
    rng.shuffle(updates)
    ledger, naive = Ledger(), Naive()
    ended: dict[int, int] = {}
    at = 0
    while at < len(updates):
        batch = updates[at : at + data.draw(st.integers(1, 5))]
        at += len(batch)
        complete = {update.root: naive.take(update, terms) for update in batch}
        acked = acked_of(apply(ledger, batch))
        assert set(acked) == {root for root, done in complete.items() if done}
        assert not set(acked) & set(ended)
        ended |= acked
    assert ended == {root: SPOUT + root % 3 for root in roots}
    assert len(ledger) == ledger.trees == 0


@given(st.integers(0, 2**32), st.integers(0, 30), st.data())
def test_repeated_updates_never_ack_a_pending_tree(seed: int, size: int, data: st.DataObject) -> None:
    """No transport here repeats an update; were it to happen, a tree may expire, but it is never acked too early."""
    rng = random.Random(seed)
    root = rng.getrandbits(64)
    updates = random_tree(rng, [root], size)
    missing = data.draw(st.sampled_from(updates))
    stream = [update for update in updates if update is not missing]
    stream += [data.draw(st.sampled_from(stream)) for _ in range(data.draw(st.integers(0, 6))) if stream]
    rng.shuffle(stream)
    ledger = Ledger()
    for update in stream:
        assert not apply(ledger, [update])


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_a_lost_update_ends_in_expiry_and_nothing_else(seed: int, size: int) -> None:
    rng = random.Random(seed)
    root = rng.getrandbits(64)
    updates = random_tree(rng, [root], size)
    acks = [update for update in updates if update.task is None]
    if not acks:
        return
    lost = rng.choice(acks)
    rng.shuffle(updates)
    ledger = Ledger()
    for update in updates:
        assert update is lost or not apply(ledger, [update])
    assert [sum(map(len, ledger.rotate(0.0).expired.values())) for _ in range(3)] == [0, 0, 1]


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["batch", "fail", "reset", "rotate"]), max_size=60))
def test_every_initialised_tree_ends_exactly_once(seed: int, steps: list[str]) -> None:
    """Acked, failed or expired: one of them, once; and the registry (trees, totals, births) agree at every step."""
    rng = random.Random(seed)
    roots = [rng.getrandbits(64) for _ in range(6)]
    updates = random_tree(rng, roots, 12)
    rng.shuffle(updates)
    ledger, started, ended = Ledger(), set[int](), list[int]()
    none = array("Q")
    for step in [*steps, *["batch"] * len(updates), *["rotate"] * 3]:
        match step:
            case "batch":
                batch, updates = updates[:3], updates[3:]
                started |= {update.root for update in batch if update.task is not None}
                verdicts = apply(ledger, batch)
            case "rotate":
                verdicts = ledger.rotate(0.0)
            case "fail":
                one = array("Q", [rng.choice(roots)])
                verdicts = ledger.apply(none, none, array("I"), none, none, one, none, 0.0)
            case _:
                one = array("Q", [rng.choice(roots)])
                verdicts = ledger.apply(none, none, array("I"), none, none, none, one, 0.0)
        for of in (verdicts.acked, verdicts.failed, verdicts.expired):
            ended += [root for of_task in of.values() for root in of_task]
        totals = ledger.totals
        assert ledger.trees == len(started) - len(ended) == sum(ledger._entries.births.values())
        assert totals.completed + totals.failed + totals.timeouts == len(ended)
    assert sorted(ended) == sorted(started) == sorted(roots)


@pytest.mark.parametrize("seed", range(5))
def test_thousands_of_trees_interleaved(seed: int) -> None:
    rng = random.Random(seed)
    roots = [rng.getrandbits(64) for _ in range(300)]
    updates = [update for root in roots for update in random_tree(rng, [root], 10)]
    rng.shuffle(updates)
    ledger = Ledger()
    acked: list[int] = []
    for at in range(0, len(updates), 64):
        acked += acked_of(apply(ledger, updates[at : at + 64]))
        if at % 1024 == 0:
            ledger.rotate(0.0) if at == 0 else None
    assert sorted(acked) == sorted(roots)
    assert len(ledger) == 0
