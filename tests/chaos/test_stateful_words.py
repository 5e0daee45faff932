"""kill -9 of workers, again and again, under a stateful word count.

In default mode no count is below the truth, in aligned mode each is the truth.

The lengths of a run and its seeds are of this test; TUPLETREE_CHAOS_SECONDS and TUPLETREE_CHAOS_SEEDS make more of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
import uuid
from collections import Counter
from types import SimpleNamespace

import pytest
from stateful_topology import COUNT_TASKS, SPOUT_TASKS, stateful_topology, truth

from tests.integration.transactional.database_servers import PostgresServer, RedisServer, running
from tests.variants import at_night_but
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import load_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.state.providers import open_state
from tupletree.testing import DevCluster, wait_until

SECONDS = float(os.environ.get("TUPLETREE_CHAOS_SECONDS", "8"))
SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]
RATE = 400


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as one:
        yield one


@pytest.fixture(scope="module")
def server_url():
    """The URL of a server, by the name of its provider; the servers end with the module."""
    kinds = {"postgres": PostgresServer, "redis": RedisServer}
    with contextlib.ExitStack() as servers:
        yield functools.cache(lambda name: servers.enter_context(running(kinds[name])).url)


@pytest.fixture(params=at_night_but(["rocksdb"], ["postgres", "redis", "rocksdb", "sqlite"]))
def provider(request, tmp_path, server_url):
    config = (
        {"directory": str(tmp_path)} if request.param in ("rocksdb", "sqlite") else {"url": server_url(request.param)}
    )
    if request.param == "rocksdb":
        config["shared"] = str(tmp_path / "shared")
        (tmp_path / "shared").mkdir()
    return {"topology.state.provider": request.param, "topology.state.provider.config": config}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("aligned", at_night_but([True], [False, True]), ids=["default", "aligned"])
@pytest.mark.parametrize("seed", SEEDS)
def test_counts_survive_the_kills_of_workers(cluster, provider, aligned, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 500,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"words-{uuid.uuid4().hex}",
        **provider,
    }
    lines = int(SECONDS * RATE * 1.3)  # still flowing when the kills end
    topology = stateful_topology(tmp_path, aligned=aligned, rate=RATE, lines=lines)
    cluster.client.submit("stateful", topology, conf)
    try:
        kills = kill_workers(cluster, random.Random(seed))
        wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("stateful", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    counted, expected = stored(conf), truth(lines)
    print(f"{kills} kills, {lines} lines, {expected.total()} words, counted {counted.total()}")
    assert kills >= SECONDS / 6
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected


def kill_workers(cluster, rng):
    """For so many seconds, one of the workers every few seconds."""
    kills = 0
    until_s = time.monotonic() + SECONDS
    while (now_s := time.monotonic()) < until_s:
        next_s = now_s + rng.uniform(1.5, 4.0)
        wait_until(lambda next_s=next_s: time.monotonic() > next_s and workers(cluster), 60, what="a worker to kill")
        cluster.kill("worker", rng.randrange(len(workers(cluster))))
        kills += 1
    return kills


def workers(cluster):
    return [process for process in cluster.processes if process.role == "worker"]


def is_acked(directory, lines):
    files = [directory / f"acked-{index}" for index in range(SPOUT_TASKS)]
    return all(file.exists() and int(file.read_text()) >= lines for file in files)


def await_committed(cluster, conf):
    """Returns when no checkpoint is being committed.

    A spout hears of a commit, or is taken back to where it was, before other tasks have committed; killed then, they
    do it when they are back, but nobody comes back here.
    """
    with contextlib.closing(open_store(cluster.conf)) as store:
        wait_until(lambda: load_checkpoint(store, conf["topology.state.id"])[0].phase is not Phase.COMMITTING, 60)


def stored(conf):
    """What the states hold."""
    counts = Counter()
    for index in range(COUNT_TASKS):
        _, state = open_state(f"{conf['topology.state.id']}/count/{index}", conf, SimpleNamespace(conf=conf))
        for word, count in state.items():
            assert word not in counts, f"two tasks have counted {word}"
            counts[word] = count
        state.close()
    return counts
