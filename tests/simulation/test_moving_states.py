"""Topologies whose states move, in a faulty world: whatever is changed, and whoever dies, everything counts once.

    python -m pytest tests/simulation/test_moving_states.py      40 histories, and every rule broken once
    make test-simulation                                         10,000
    MOVING_SEEDS=50000 python -m pytest …                        as many as you like

A failure names its seed and tells the story. In plain Python (TUPLETREE_PURE=1) some seeds are other histories than
with the compiled modules.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import pytest
from broken_rules import Search
from histories import check_seed, run
from moving_breaks import BROKEN
from moving_nouns import KEYED
from moving_world import World
from transaction_nouns import Violation

SEEDS = int(os.environ.get("MOVING_SEEDS", "40"))
BLOCKS = max(4, SEEDS // 50)
HISTORIES = 40  # looked at for what happened in them

pytestmark = pytest.mark.sized


@lru_cache(maxsize=HISTORIES)
def history(seed: int) -> World:
    return run(World, seed)


def figures(world: World) -> Counter[str]:
    counts = world.counts
    return Counter(
        seeds=1,
        steps=world.steps,
        commits=world.judge.commits,
        crashes=world.crashes,
        rescales=counts["rescaled bolts"] + counts["rescaled spouts"],
        moves=counts["moved states"] + counts["moved positions"],
        updates=counts["updated"],
        rollbacks=counts["rolled back"] + counts["taken back"],
        **{"cuts compared": world.judge.cuts, "values migrated": counts["migrated"]},
    )


@pytest.mark.parametrize("block", range(BLOCKS))
def test_everything_counts_once_whatever_changes(block: int, record_property: Callable[[str, object], None]) -> None:
    total: Counter[str] = Counter()
    for seed in range(block, SEEDS, BLOCKS):
        total += figures(history(seed))
    record_property("figures", dict(total))


def test_the_histories_contain_what_they_are_meant_to() -> None:
    """A simulation in which nothing changes and nothing goes wrong proves nothing."""
    worlds = [history(seed) for seed in range(HISTORIES)]
    assert {bolt for world in worlds for bolt in world.shape.bolts} == set(KEYED)
    counts = sum((world.counts for world in worlds), Counter[str]())
    for what in (
        "rescaled bolts",
        "rescaled spouts",
        "rescaled to one",
        "moved states",
        "moved positions",
        "moved up",
        "moved down",
        "moved amid faults",
        "moved while preparing",
        "moved while committing",
        "updated",
        "migrated",
        "taken back",
        "rolled back",
        "restarted with other keys",
        "requests refused",
        "leaders lost",
        "cut off",
        "batches refused",
        "reply lost",
        "killed after",
        "acker crashes",
    ):
        assert counts[what] > 0, what
    assert sum(world.judge.cuts for world in worlds) > 500
    assert sum(world.crashes for world in worlds) > 200


def test_a_seed_is_a_whole_history() -> None:
    check_seed(World)


SEARCH = Search("test_moving_states", World, Violation, BROKEN, 100)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_found(broken: str) -> None:
    SEARCH.find(broken, SEARCH.found(broken))


def test_a_violation_names_its_seed_and_tells_its_story() -> None:
    broken = "a key stays where it is"
    with pytest.raises(Violation) as caught:
        for seed in range(SEARCH.found(broken), 100):
            run(World, seed, BROKEN[broken][0])
    told = str(caught.value)
    assert re.match(r"seed \d+: at \d+\.\d+ s, Shape\(.*\): \w+: .* is in the state of task \d of \d\n", told)
    assert "the operator asks: rescale" in told
    assert "takes the checkpoints over" in told
