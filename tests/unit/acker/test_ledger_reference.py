"""The ledger and its packed table against plain dictionaries: the same histories, the same verdicts and figures."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_ledger import Ended, ReferenceLedger, in_order

from tupletree.acker import ledger as ledger_module
from tupletree.acker.hash_table import Table
from tupletree.acker.ledger import Ledger, Verdicts

KINDS = ("acked", "failed", "expired", "reset")
LIMITS = (1, 64, ledger_module._MIN_ARRAY_UPDATES, sys.maxsize)
"""Below how many updates a batch is applied one after the other: never, where some are, as it is here, always."""
FIGURES = ("inits", "acks", "fails", "resets", "completed", "failed", "timeouts")


def plain(*verdicts: Verdicts) -> Ended:
    found: Ended = {}
    for one in verdicts:
        for kind in KINDS:
            for task, roots in getattr(one, kind).items():
                found.setdefault(kind, {}).setdefault(task, []).extend(roots)
    return in_order(found)


@dataclass
class Both:
    """A ledger and the reference, told the same; they must say the same."""

    ledger: Ledger = field(default_factory=Ledger)
    reference: ReferenceLedger = field(default_factory=ReferenceLedger)
    now_s: float = 0.0

    def apply(
        self,
        inits: Sequence[tuple[int, int, int]] = (),
        acks: Sequence[tuple[int, int]] = (),
        fails: Sequence[int] = (),
        resets: Sequence[int] = (),
    ) -> Ended:
        verdicts = self.ledger.apply(
            array("Q", [root for root, _, _ in inits]),
            array("Q", [value for _, value, _ in inits]),
            array("I", [task for _, _, task in inits]),
            array("Q", [root for root, _ in acks]),
            array("Q", [value for _, value in acks]),
            array("Q", fails),
            array("Q", resets),
            self.now_s,
        )
        expected = self.reference.apply(inits, acks, fails, resets, self.now_s)
        found = plain(verdicts)
        assert found == expected
        self.compare()
        return found

    def rotate(self, *, trees_expire: bool = True) -> Ended:
        found = plain(*self.ledger.rotation(self.now_s, trees_expire=trees_expire, step=7))
        assert found == self.reference.rotate(trees_expire=trees_expire)
        self.compare()
        return found

    def compare(self) -> None:
        assert len(self.ledger) == len(self.reference)
        assert self.ledger.trees == len(self.reference.pending)
        assert {name: getattr(self.ledger.totals, name) for name in FIGURES} == {
            name: self.reference.totals[name] for name in FIGURES
        }
        assert self.ledger.oldest_age_s(self.now_s) == pytest.approx(self.reference.oldest_age_s(self.now_s))
        for ago_s in (0, 1, 5):
            assert self.ledger.trees_begun_by(self.now_s - ago_s) == self.reference.trees_begun_by(self.now_s - ago_s)
        for bucket in self.reference.buckets:
            for root in list(bucket)[:5]:
                assert self.ledger.ack_value(root) == bucket[root].value


@contextmanager
def one_after_the_other_below(limit: int, entries: int = 0) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_module, "_MIN_ARRAY_UPDATES", limit)
        patch.setattr(ledger_module, "_MIN_ARRAY_ENTRIES", entries)
        yield


def history(rng: random.Random, both: Both, steps: int, roots: int, most: int) -> None:
    """Few roots and few values, so that everything meets everything; batches of one to ``most`` updates."""
    for _ in range(steps):
        both.now_s += rng.choice([0, 0, 1, 3])
        if rng.random() < 0.15:
            both.rotate(trees_expire=rng.random() < 0.8)
            continue
        sizes = [rng.choice([0, 0, 1, 2, most]) for _ in range(4)]
        ids = [[rng.randrange(roots) for _ in range(size)] for size in sizes]
        both.apply(
            [(root, rng.randrange(4), rng.randrange(3)) for root in ids[0]],
            [(root, rng.randrange(4)) for root in ids[1]],
            ids[2],
            ids[3],
        )


@given(
    st.integers(0, 2**32),
    st.sampled_from([3, 40, 1000, 5000]),
    st.sampled_from([5, 31, 32, 63, 64, 65, 300]),
    st.sampled_from(LIMITS),
    st.sampled_from([0, 30, ledger_module._MIN_ARRAY_ENTRIES]),
)
def test_any_history_has_the_same_verdicts(seed: int, roots: int, most: int, limit: int, entries: int) -> None:
    with one_after_the_other_below(limit, entries):
        history(random.Random(seed), Both(), 40, roots, most)


@pytest.mark.long
@pytest.mark.parametrize(
    "size",
    [ledger_module._MIN_ARRAY_UPDATES - 1, ledger_module._MIN_ARRAY_UPDATES, ledger_module._MIN_ARRAY_UPDATES + 1],
)
def test_batches_around_the_limit(size: int) -> None:
    rng = random.Random(size)
    with one_after_the_other_below(ledger_module._MIN_ARRAY_UPDATES):
        history(rng, Both(), 12, 3 * size, size)
        both = Both()
        trees = {rng.getrandbits(64): rng.getrandbits(64) for _ in range(size)}
        both.apply([(root, value, root % 3) for root, value in trees.items()])
        assert len(both.apply(acks=list(trees.items()))["acked"]) == 3
        assert len(both.ledger) == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 4]))
def test_any_history_has_the_same_verdicts_with_other_numbers_of_buckets(seed: int, buckets: int) -> None:
    history(random.Random(seed), Both(Ledger(buckets), ReferenceLedger(buckets)), 40, 300, 200)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_a_table_that_grows_and_shrinks(seed: int, limit: int) -> None:
    """Thousands of trees come, in large batches and in small ones, and go in each of the ways there are."""
    with one_after_the_other_below(limit):
        grow_and_shrink(random.Random(seed), Both())


def grow_and_shrink(rng: random.Random, both: Both) -> None:
    for most in (3000, 40, 6000):
        trees: dict[int, int] = {}
        while len(both.reference) < 12_000 if most > 40 else len(trees) < 1500:
            new = {rng.getrandbits(64): rng.getrandbits(64) for _ in range(rng.randint(1, most))}
            both.now_s += 0.5
            both.apply([(root, value, root % 5) for root, value in new.items()], resets=rng.sample(sorted(new), 1))
            trees |= new
        grown = both.ledger.bytes_held
        roots = rng.sample(sorted(trees), len(trees))
        while len(roots) > 200:
            some, roots = roots[:most], roots[most:]
            both.apply(acks=[(root, trees[root]) for root in some], fails=[])
            some, roots = roots[: most // 3], roots[most // 3 :]
            both.apply(fails=some)
        assert both.ledger.bytes_held < grown or len(trees) < 5000
        for _ in range(3):
            both.rotate()
        assert len(both.ledger) == 0


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("seed", range(4))
def test_updates_between_the_steps_of_a_rotation_do_not_find_what_expires(seed: int, limit: int) -> None:
    with one_after_the_other_below(limit):
        update_between_steps(random.Random(seed), Both())


def update_between_steps(rng: random.Random, both: Both) -> None:
    trees = {rng.getrandbits(64): rng.getrandbits(64) for _ in range(rng.choice([50, 3000]))}
    both.apply([(root, value, root % 3) for root, value in trees.items()])
    both.apply(acks=[(rng.getrandbits(64), 1) for _ in range(100)])
    both.rotate()
    both.apply(resets=rng.sample(sorted(trees), 20))
    both.rotate()
    expected = both.reference.rotate()
    steps, found = both.ledger.rotation(0.0, step=rng.choice([3, 500])), []
    for number, verdicts in enumerate(steps):
        found.append(verdicts)
        assert sum(len(roots) for roots in verdicts.expired.values()) <= 500 + 200
        if number < 20:
            some = rng.sample(sorted(trees), rng.choice([1, min(100, len(trees))]))
            updates = [(root, rng.getrandbits(64) if rng.random() < 0.5 else trees[root]) for root in some]
            given = [(root, value, 9) for root, value in updates] if number % 2 else []
            tell(both, given, updates if number % 3 else [], some if number % 5 == 0 else [])
    assert plain(*found) == expected
    for _ in range(3):
        both.rotate()
    assert len(both.ledger) == 0


def tell(
    both: Both, inits: Sequence[tuple[int, int, int]], acks: Sequence[tuple[int, int]], fails: Sequence[int]
) -> None:
    """Updates in the middle of a rotation: verdicts agree, though not yet what trees are left to expire."""
    verdicts = both.ledger.apply(
        array("Q", [root for root, _, _ in inits]),
        array("Q", [value for _, value, _ in inits]),
        array("I", [task for _, _, task in inits]),
        array("Q", [root for root, _ in acks]),
        array("Q", [value for _, value in acks]),
        array("Q", fails),
        array("Q"),
        both.now_s,
    )
    assert plain(verdicts) == both.reference.apply(inits, acks, fails, [], both.now_s)
    assert len(both.ledger) == len(both.reference)


def test_a_rotation_that_nobody_finishes_is_finished_by_the_next() -> None:
    both = Both()
    both.apply([(root, 1, 2) for root in range(1, 1001)])
    both.rotate()
    both.rotate()
    gone = both.reference.rotate()
    first = next(both.ledger.rotation(0.0, step=100))
    assert len(both.ledger) == len(both.reference) == 0
    both.apply([(root, 1, 3) for root in range(1, 1001)])
    assert both.reference.rotate() == {}
    assert plain(first, *both.ledger.rotation(0.0)) == gone
    assert len(both.ledger) == len(both.reference) == 1000


def structured(kind: str, count: int) -> list[int]:
    match kind:
        case "counting":
            return list(range(count))
        case "high bits":
            return [number << 44 for number in range(count)]
        case "multiples":
            return [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(count)]
        case _:
            return [number << 32 | number for number in range(count)]


@pytest.mark.parametrize("kind", ["counting", "high bits", "multiples", "both halves"])
@pytest.mark.parametrize("limit", [ledger_module._MIN_ARRAY_UPDATES, sys.maxsize])
def test_roots_that_a_peer_has_chosen_spread_over_the_buckets(kind: str, limit: int) -> None:
    """Without the key nobody can choose those that lie together: chains stay as short as for random ones."""
    with one_after_the_other_below(limit):
        spread(kind)


def spread(kind: str) -> None:
    ledger, count = Ledger(hash_key=random.Random(7).getrandbits(192)), 60_000
    roots, none = array("Q", structured(kind, count)), array("Q")
    ledger.apply(roots, array("Q", [1] * count), array("I", [1] * count), none, none, none, none, 0.0)
    assert len(ledger) == count
    table = ledger._entries.table
    lengths, slots = 0, table._heads[: table._buckets]
    while (slots := slots[slots >= 0]).size:
        lengths, slots = lengths + 1, table._next.take(slots)
    assert lengths < 10
    assert plain(ledger.apply(none, none, none, roots, array("Q", [1] * count), none, none, 0.0)) == {
        "acked": {1: sorted(roots)}
    }
    assert len(ledger) == 0


@pytest.mark.parametrize("limit", LIMITS)
def test_one_batch_that_says_the_same_root_thousands_of_times(limit: int) -> None:
    both = Both()
    with one_after_the_other_below(limit):
        both.apply([(5, 1, 2)] * 3000, [(5, value % 3) for value in range(5000)], [5] * 200, [5] * 200)


def test_many_and_one_find_the_same() -> None:
    table = Table(key=123456789 << 100)
    roots = np.random.default_rng(1).integers(0, 1 << 64, 5000, dtype=np.uint64)
    hashes = table.hashes(roots)
    assert hashes.tolist() == [table.hash_one(root) for root in roots.tolist()]
    for root, mixed in zip(roots.tolist()[:2500], hashes.tolist(), strict=False):
        table.insert_one(root, mixed, root, 1, 2, 3)
    slots = table.find(roots, hashes).slots
    assert slots.tolist() == [table.find_one(root, table.hash_one(root)) for root in roots.tolist()]
    assert (slots[:2500] >= 0).all()
    assert (slots[2500:] == -1).all()
    assert table.roots.take(slots[:2500]).tolist() == roots.tolist()[:2500]


def batches(count: int) -> Iterator[tuple[array[int], array[int], array[int]]]:
    rng = np.random.default_rng(3)
    for _ in range(count // 4096):
        roots = rng.integers(1, 1 << 64, 4096, dtype=np.uint64).tobytes()
        yield array("Q", roots), array("Q", roots), array("I", bytes(4 * 4096))


def test_bytes_for_a_tree_stay_below_48_while_the_table_grows() -> None:
    ledger, none = Ledger(), array("Q")
    for roots, values, tasks in batches(400_000):
        ledger.apply(roots, values, tasks, none, none, none, none, 0.0)
        if len(ledger) > 50_000:
            assert ledger.bytes_held / len(ledger) < 48
    assert len(ledger) > 390_000


@pytest.mark.parametrize("size", [ledger_module._MIN_ARRAY_UPDATES - 1, ledger_module._MAX_PART + 1])
def test_numpy_arrays_and_lists_will_do_as_well(size: int) -> None:
    ledger = Ledger()
    roots = np.arange(1, size + 1, dtype=np.uint64)
    tasks = np.ones(size, np.uint32)
    with one_after_the_other_below(ledger_module._MIN_ARRAY_UPDATES):
        assert not ledger.apply(roots, roots, tasks, [], [], [], [], 0.0)
        assert plain(ledger.apply([], [], [], roots.tolist(), roots.tolist(), [], [], 0.0)) == {
            "acked": {1: roots.tolist()}
        }


def test_many_updates_that_find_dead_entries_are_not_applied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would cost what a whole batch does."""
    most, size, each = [0], 2 * ledger_module._MIN_ARRAY_UPDATES, ledger_module.ack_each

    def seen(pending: Any, totals: Any, roots: Any, *rest: Any) -> None:
        most[0] = max(most[0], len(roots))
        each(pending, totals, roots, *rest)

    monkeypatch.setattr(ledger_module, "ack_each", seen)
    rng = random.Random(5)
    trees = [(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(size)]
    both = Both()
    both.apply([(root, value, 1) for root, value in trees])
    both.rotate()
    both.rotate()
    rotation = both.ledger.rotation(0.0, step=10)
    next(rotation)
    none = array("Q")
    late = array("Q", [root for root, _ in trees[size // 4 :]]), array("Q", [value for _, value in trees[size // 4 :]])
    assert not both.ledger.apply(none, none, array("I"), *late, none, none, 0.0)
    assert most[0] < ledger_module._MIN_ARRAY_UPDATES
    list(rotation)
    assert len(both.ledger) == len(late[0])
