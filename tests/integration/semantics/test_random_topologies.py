"""Hundreds of random topologies: every message is acked exactly once, and every value arrives where it must.

To look into a failure, run its number alone: ``pytest tests/integration/semantics/test_random_topologies.py -k 123``.
``TUPLETREE_RANDOM_TOPOLOGIES=1000:3000`` runs other numbers than the usual ones.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from random_topologies import RandomTopology
from several_workers import SeveralWorkers

from tupletree.testing import LocalCluster, wait_until

FIRST, LAST = map(int, os.environ.get("TUPLETREE_RANDOM_TOPOLOGIES", "0:50").split(":"))
ENOUGH_S = 100


@pytest.fixture(autouse=True)
def threads_that_take_turns_often() -> Iterator[None]:
    """A switch every few microseconds instead of milliseconds makes rare interleavings frequent."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_every_message_is_acked_once_and_every_value_arrives(seed: int) -> None:
    made = RandomTopology(seed)
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit("random", made.topology, made.conf)

        def is_done() -> bool:
            cluster.wait_quiet(ENOUGH_S)
            if len(made.acked) >= len(made.messages) and sum(made.expected.values()) <= len(made.met):
                return True
            assert made.has_joins, f"quiet, but only {len(made.acked)} of {len(made.messages)} acked"
            cluster.advance(1)  # a tick lets what is held go on
            return False

        cluster.wait_until(is_done, ENOUGH_S)
        cluster.wait_quiet(ENOUGH_S)
        assert cluster.errors("random") == []
        pending = [task.pending for task in cluster._find("random").engine.statistics()]
    assert Counter(made.acked) == Counter(made.messages)
    met = Counter(made.met)
    if made.has_failures:
        assert set(met) == set(made.expected)
        assert all(met[what] >= times for what, times in made.expected.items())
    else:
        assert met == made.expected
    assert sum(pending) == 0


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(FIRST + 10_000, LAST + 10_000 - (LAST - FIRST) // 2))
def test_an_acked_message_has_been_processed_everywhere_though_workers_share_the_work(seed: int) -> None:
    """All that a tree consists of has happened when its spout hears that it is complete, and not a moment later."""
    made = RandomTopology(seed)
    is_tracked = made.conf["topology.acker.executors"] > 0
    with SeveralWorkers(made.topology, made.conf, 2 + seed % 2, seed) as workers:

        def is_done() -> bool:
            workers.look_after()
            if made.has_joins:
                workers.now_s += 1  # a tick lets what is held go on
            assert workers.failures == []
            all_acked = len(made.acked) >= len(made.messages)
            return all_acked and (is_tracked or sum(made.expected.values()) <= len(made.met))

        wait_until(is_done, ENOUGH_S)
        met = Counter(made.met)
    if made.has_failures:
        assert set(met) == set(made.expected)
        assert all(met[what] >= times for what, times in made.expected.items())
    else:
        assert met == made.expected
    assert Counter(made.acked) == Counter(made.messages)
