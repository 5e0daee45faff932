"""kill -9 of workers and ackers under a word count that is split in its spout's executor.

In default mode no count is below the truth, in aligned mode each is the truth.
"""

from __future__ import annotations

import random
import uuid

import pytest
from chained_topology import chained_topology
from kills_in_turn import KILL_EVERY_S, kill_in_turn, workers
from stateful_topology import truth
from test_stateful_words import await_committed, is_acked, stored

from tupletree.testing import DevCluster, wait_until

SECONDS = 12.0
RATE = 400


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("aligned", [False, True], ids=["default", "aligned"])
def test_counts_survive_whatever_is_killed(cluster, aligned, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.acker.executors": 2,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"words-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    lines = int(SECONDS * RATE * 1.3)  # still flowing when the kills end
    cluster.client.submit("chained", chained_topology(tmp_path, aligned=aligned, rate=RATE, lines=lines), conf)
    try:
        kills = kill_in_turn(cluster, random.Random(1), SECONDS).total()
        wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("chained", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    counted, expected = stored(conf), truth(lines)
    print(f"{kills} kills, {lines} lines, {expected.total()} words, counted {counted.total()}")
    assert kills >= SECONDS / KILL_EVERY_S
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected
