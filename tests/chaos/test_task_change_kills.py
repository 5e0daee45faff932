"""The number of counting tasks changes again and again while workers are killed with kill -9.

In default mode no count is below the truth, in aligned mode each is the truth.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections import Counter
from types import SimpleNamespace

import pytest
from stateful_topology import stateful_topology, truth
from test_stateful_words import RATE, SECONDS, SEEDS, await_committed, is_acked, workers

from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import load_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.client import TopologyStatus
from tupletree.errors import NotFoundError
from tupletree.state.providers import open_state
from tupletree.testing import DevCluster, wait_until

CHANGES = [6, 2, 5]


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("aligned", [False, True], ids=["default", "aligned"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("provider", ["sqlite", "rocksdb"])
def test_counts_survive_changes_of_their_tasks_and_kills_of_workers(cluster, aligned, seed, provider, tmp_path):
    places = {"directory": str(tmp_path / "states")}
    if provider == "rocksdb":
        places["shared"] = str(tmp_path / "shared")
        (tmp_path / "shared").mkdir()
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 500,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"words-{uuid.uuid4().hex}",
        "topology.state.provider": provider,
        "topology.state.provider.config": places,
    }
    seconds = 3 * SECONDS
    lines = int(seconds * RATE * 1.3)  # still flowing when the changes end
    topology = stateful_topology(tmp_path, aligned=aligned, rate=RATE, lines=lines)
    cluster.client.submit("stateful", topology, conf)
    try:
        kills, changes = change_and_kill(cluster, random.Random(seed), seconds)
        wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("stateful", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    counted, tasks = stored(cluster, conf)
    expected = truth(lines)
    print(f"{kills} kills, {changes} changes, {lines} lines, {expected.total()} words, counted {counted.total()}")
    assert changes >= 3
    assert kills >= seconds / 6
    assert tasks == CHANGES[(changes - 1) % len(CHANGES)]
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected


def change_and_kill(cluster, rng, seconds):
    """For so many seconds, kill a worker every few seconds, and change the tasks when the change before is over."""
    kills = changes = 0
    until_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < until_s or changes < 3:
        if cluster.client.describe("stateful").summary.record.status is TopologyStatus.ACTIVE:
            cluster.client.rebalance("stateful", rng.choice([0, 1, 5]), tasks={"count": CHANGES[changes % 3]})
            changes += 1
        next_s = now_s + rng.uniform(1.5, 4.0)
        wait_until(lambda next_s=next_s: time.monotonic() > next_s and workers(cluster), 60, what="a worker to kill")
        with contextlib.suppress(NotFoundError):  # it has just ended, as its tasks changed
            cluster.kill("worker", rng.randrange(len(workers(cluster))))
            kills += 1
    return kills, changes


def stored(cluster, conf):
    """What the states hold, and their number."""
    with contextlib.closing(open_store(cluster.conf)) as store:
        checkpoint, _, _ = load_checkpoint(store, conf["topology.state.id"])
    tasks, layout = checkpoint.tasks["count"], checkpoint.layouts.get("count", 0)
    counts = Counter()
    for index in range(tasks):
        name = namespace_of(conf["topology.state.id"], "count", index, tasks, layout)
        _, state = open_state(name, conf, SimpleNamespace(conf=conf))
        for word, count in state.items():
            assert word not in counts, f"two tasks have counted {word}"
            counts[word] = count
        state.close()
    return counts, tasks
