"""Transactional topologies over a faulty world: whatever happens, every batch takes effect exactly once, in order.

    python -m pytest tests/simulation/test_transactions.py       300 histories
    make test-simulation                                          10,000, and what they consisted of
    TRANSACTION_SEEDS=100000 python -m pytest …                  as many as you like

A failure names its seed and tells the story of the transaction concerned.
"""

from __future__ import annotations

import os

import pytest
from transaction_nouns import Rules, Violation
from transaction_world import World

SEEDS = int(os.environ.get("TRANSACTION_SEEDS", "300"))
BLOCKS = 10 if SEEDS <= 1000 else 100


def run(seed: int, rules: Rules | None = None) -> World:
    """One history; if a rule is violated it is gone through once more, to be told."""
    world = World(seed, rules)
    try:
        return world.run()
    except Violation:
        try:
            World(seed, rules, is_telling=True).run()
        except Violation as error:
            raise Violation(f"seed {seed}: {error}") from error.__cause__
        raise


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_batch_takes_effect_exactly_once_and_in_order(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        run(seed)
