"""Stateful topologies in a faulty world: in default mode nothing is lost, in aligned mode everything counts once.

    python -m pytest tests/simulation/test_checkpoints.py        40 histories of each mode, and every rule broken once
    make test-simulation                                         5,000 of each
    CHECKPOINT_SEEDS=50000 python -m pytest …                    as many as you like

A failure names its seed and tells the story.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest
from broken_rules import Search
from checkpoint_breaks import BROKEN
from checkpoint_nouns import Rules, Violation
from checkpoint_world import World
from histories import check_seed, run

SEEDS = int(os.environ.get("CHECKPOINT_SEEDS", "40"))
BLOCKS = max(5, SEEDS // 100)
HISTORIES = 40  # of each mode, looked at for what happened in them
FATES = ("refused", "reply lost", "late", "killed before", "killed after", "paused before", "paused after")
MODES = {"default": False, "aligned": True}

pytestmark = pytest.mark.sized


@lru_cache(maxsize=len(MODES) * HISTORIES)
def history(mode: str, seed: int) -> World:
    return run(World, seed, Rules(shape={"aligned": MODES[mode]}))


def figures(world: World) -> Counter[str]:
    return Counter(
        seeds=1,
        steps=world.steps,
        commits=world.judge.commits,
        crashes=world.crashes,
        recoveries=world.counts["sent initstate"],
        **{"requests that failed": sum(world.counts[fate] for fate in FATES), "cuts compared": world.judge.cuts},
    )


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("mode", MODES)
def test_checkpoints_lose_nothing_and_aligned_ones_count_everything_once(
    mode: str, block: int, record_property: Callable[[str, object], None]
) -> None:
    total: Counter[str] = Counter()
    for seed in range(block, SEEDS, BLOCKS):
        total += figures(history(mode, seed))
    record_property("figures", dict(total))


def test_the_histories_contain_what_they_are_meant_to() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    worlds = [history(mode, seed) for mode in MODES for seed in range(HISTORIES)]
    assert {(world.shape.aligned, world.shape.positioned) for world in worlds} == {
        (False, False),
        (True, False),
        (True, True),
    }
    assert {bolt.kind for world in worlds for bolt in world.shape.bolts.values()} == {
        "pass", "late", "slow", "count", "gather", "tardy",
    }  # fmt: skip
    assert any(count > 1 for world in worlds for count in world.judge.paths.values()), "a diamond"
    counts = sum((world.counts for world in worlds), Counter[str]())
    for what in (
        *FATES,
        "batches lost",
        "updates lost",
        "links broken",
        "cut off",
        "component fails",
        "component dies",
        "component raises",
        "committed amid faults",
        "recorded by one of two checkpoint spouts",
    ):
        assert counts[what] > 5, what
    assert counts["sent initstate"] > 100
    assert sum(world.judge.cuts for world in worlds) > 50
    assert sum(world.crashes for world in worlds) > 100


def test_a_seed_is_a_whole_history() -> None:
    check_seed(World)


SEARCH = Search("test_checkpoints", World, Violation, BROKEN, 300)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_found(broken: str) -> None:
    SEARCH.find(broken, SEARCH.found(broken))


def test_a_violation_names_its_seed_and_tells_its_story() -> None:
    broken = "holds nothing while it waits"
    rules, _ = BROKEN[broken]
    with pytest.raises(Violation) as caught:
        for seed in range(SEARCH.found(broken), 300):
            run(World, seed, replace(rules))
    told = str(caught.value)
    assert re.match(r"seed \d+: at \d+\.\d+ s, Shape\(.*\): .* has counted s\d/\d:\d+ \d+ times, not \d+\n", told)
    assert "takes the checkpoints over" in told
    assert "records committing" in told
