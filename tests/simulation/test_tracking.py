"""Ledger and pending map over a faulty network: whatever happens, no tree is acked too early and none is forgotten.

    python -m pytest tests/simulation/test_tracking.py            100 histories, and 33 hostile ones
    make test-nightly                                             1,000 histories, and 333 hostile ones
    TRACKING_SEEDS=100000 python -m pytest ...                    as many as you like

A failure names its seed and tells the story of the tree concerned.
"""

from __future__ import annotations

import os
import random
from functools import lru_cache

import numpy as np
import pytest
from tracking_nouns import Rules, Violation
from tracking_world import World

from tupletree.acker.ledger import Ledger

SEEDS = int(os.environ.get("TRACKING_SEEDS", "100"))
BLOCKS = 10
HISTORIES = 60  # looked at for what happened in them

pytestmark = pytest.mark.sized


def run(seed: int, rules: Rules | None = None, *, hostile: bool = False) -> World:
    try:
        return World(seed, rules, hostile=hostile).run()
    except Violation as error:
        raise Violation(f"seed {seed} (hostile={hostile}): {error}") from None


@lru_cache(maxsize=2 * HISTORIES)
def history(seed: int) -> World:
    return run(seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_acked_only_when_processed_and_every_tree_ends(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        world = history(seed)
        assert not world.unacked, f"seed {seed}"
        assert set(world.ended) == set(world.emitted), f"seed {seed}"


@pytest.mark.parametrize("block", range(4))
def test_repeated_inits_and_acks_never_ack_too_early(block: int) -> None:
    """More than the transport can do: see the ledger's docstring for why it holds."""
    for seed in range(block, SEEDS // 3, 4):
        run(seed, hostile=True)


def test_the_histories_contain_what_they_are_meant_to() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    worlds = [history(seed) for seed in range(HISTORIES)]
    ends = [how for world in worlds for how in world.ended.values()]
    for how in ("acked", "failed", "timed out", "lost with its acker"):
        assert ends.count(how) > 10, how
    lines = [line for world in worlds for story in world.story.values() for line in story]
    for what in (
        "forgotten by its bolt",
        "failed by its bolt",
        "says reset",
        "says expired",
        "of stage 2",
        "with 0 copies",
    ):
        assert any(what in line for line in lines), what


def test_a_seed_is_a_whole_history() -> None:
    one, two = run(7), run(7)
    assert one.story == two.story
    assert one.steps == two.steps


class AckWithoutChildren(Rules):
    def ack_values(self, edge: int, children: int) -> list[int]:
        return [edge]


class ParentBeforeChildren(Rules):
    """Parent and children cancel in the end, but not in one update."""

    def ack_values(self, edge: int, children: int) -> list[int]:
        return [edge, children] if children else [edge]


class OneEdgeForAllCopies(Rules):
    def edges(self, rng: random.Random, count: int) -> list[int]:
        return [rng.getrandbits(64)] * count


class InitsCountAgain(Rules):
    """A ledger that applies the value of an init whose tree it knows."""

    class ledger(Ledger):  # type: ignore[misc]
        def _init(self, roots, values, tasks, *rest):  # type: ignore[no-untyped-def]
            table = self._entries.table
            for root, value in zip(roots, values, strict=True):
                slot = table.find_one(root, table.hash_one(root))
                if slot >= 0:
                    table.values[slot] ^= np.uint64(value)
            super()._init(roots, values, tasks, *rest)


TOO_EARLY = r"(?s)seed \d+ .*acked while tuples .* are not processed.*acker \d+ says acked"


@pytest.mark.parametrize("rules", [AckWithoutChildren(), ParentBeforeChildren(), OneEdgeForAllCopies()])
def test_a_broken_rule_is_found(rules: Rules) -> None:
    with pytest.raises(Violation, match=TOO_EARLY):
        for seed in range(50):
            run(seed, rules)


def test_a_ledger_that_counts_repeated_inits_is_found() -> None:
    with pytest.raises(Violation, match=TOO_EARLY):
        for seed in range(50):
            run(seed, InitsCountAgain(), hostile=True)
