"""Transactional topologies in a faulty world: whatever happens, every batch takes effect exactly once, in order.

    python -m pytest tests/simulation/test_transactions.py       80 histories, and every rule broken once
    make test-simulation                                         10,000 histories
    TRANSACTION_SEEDS=100000 python -m pytest …                  as many as you like

A failure names its seed and tells the story of the transaction concerned.
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
from histories import check_seed, run
from transaction_breaks import BROKEN
from transaction_group_breaks import BROKEN_IN_GROUPS
from transaction_nouns import Violation
from transaction_world import World

SEEDS = int(os.environ.get("TRANSACTION_SEEDS", "80"))
BLOCKS = max(10, SEEDS // 100)
HISTORIES = 40  # looked at for what happened in them

pytestmark = pytest.mark.sized


@lru_cache(maxsize=4 * HISTORIES)
def history(seed: int) -> World:
    return run(World, seed)


def figures(world: World) -> Counter[str]:
    return Counter(
        seeds=1,
        steps=world.steps,
        commits=world.judge.committed,
        crashes=world.crashes,
        replays=world.judge.replays,
        **{"requests that failed": sum(world.network.counts[fate] for fate in FATES)},
    )


FATES = ("refused", "reply lost", "late", "killed before", "killed after", "paused before", "paused after")


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_batch_takes_effect_exactly_once_and_in_order(
    block: int, record_property: Callable[[str, object], None]
) -> None:
    total: Counter[str] = Counter()
    for seed in range(block, SEEDS, BLOCKS):
        total += figures(history(seed))
    record_property("figures", dict(total))


def test_the_histories_contain_what_they_are_meant_to() -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    worlds = [history(seed) for seed in range(HISTORIES)]
    assert {(world.shape.kind, world.shape.form) for world in worlds} == {
        (kind, form) for kind in ("generic", "partitioned", "opaque") for form in ("chain", "two committers", "diagram")
    }
    counts = sum((Counter(world.network.counts) for world in worlds), Counter[str]())
    for what in (
        *FATES,
        "lost",
        "links broken",
        "data repeated",
        "control repeated",
        "timed out",
        "committed amid faults",
        "emitted by one of two coordinators",
        "groups",
    ):
        assert counts[what] > 10, what
    assert sum(world.judge.replays for world in worlds) > 400
    assert sum(world.crashes for world in worlds) > 200


def test_a_seed_is_a_whole_history() -> None:
    check_seed(World)


SEARCH = Search(
    "test_transactions",
    World,
    Violation,
    # What comes of a broken rule is to be found, not what it is.
    {
        broken: (replace(rules, looks_inside=False), sentence)
        for broken, (rules, sentence) in (BROKEN | BROKEN_IN_GROUPS).items()
    },
    250,
)


@pytest.mark.parametrize("broken", SEARCH.broken)
def test_a_broken_rule_is_found(broken: str) -> None:
    SEARCH.find(broken, SEARCH.found(broken))


def test_a_violation_names_its_seed_and_tells_the_story_of_its_transaction() -> None:
    rules, _ = BROKEN["counts by txid"]
    with pytest.raises(Violation) as caught:
        for seed in range(250):
            run(World, seed, rules)
    told = str(caught.value)
    assert re.match(r"seed \d+: at \d+\.\d+ s, Shape\(.*\): .* counts Tuple\(.* with transaction (\d+) ", told)
    assert "emits batch of transaction" in told
    assert len(set(re.findall(r"(?:emits|finishes|reports) .*transaction (\d+) ", told))) == 1
