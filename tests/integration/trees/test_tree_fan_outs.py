"""Fan-outs of three processes over each other, of which one is killed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from trees_harness import TreesAcker

from bench.trees import fan_out
from tupletree.testing import wait_until

TREES = 3_000


def outcomes(acker: TreesAcker, timeout_s: float, *, kill: bool) -> tuple[list[dict[str, Any]], Counter[str]]:
    told = fan_out(acker.address, "orders", TREES, 10, 3, 500, timeout_s, kill=kill)
    total: Counter[str] = Counter()
    for one in told:
        assert sum(one["outcomes"].values()) == TREES
        total.update(one["outcomes"])
    return told, total


def test_every_tree_of_three_processes_is_done(acker: TreesAcker) -> None:
    told, total = outcomes(acker, 60, kill=False)
    assert len(told) == 3
    assert total == {"done": 3 * TREES}
    assert acker.namespace("orders")["done"] == 3 * TREES


@pytest.mark.long
def test_every_tree_of_the_living_ends_once_when_a_process_is_killed(acker: TreesAcker) -> None:
    told, total = outcomes(acker, 4, kill=True)
    assert len(told) == 2
    assert set(total) <= {"done", "timed out"}
    assert total["timed out"] > 0  # children were with the process that was killed
    assert total["done"] > TREES  # the others went on
    gone = acker.namespace("orders")
    wait_until(lambda: acker.namespace("orders")["clients"] == 0, 10, what="all clients have gone")
    assert gone["begun"] >= 2 * TREES
