"""Savepoints while workers are killed with kill -9, and topologies that begin with them, whose workers are killed too.

In aligned mode the counts of each savepoint are exactly those of the lines before its positions, and the counts at the
end the truth. In default mode, with the topology stopped at the savepoint, no count is below the truth.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
import threading
import uuid
from collections import Counter

import pyarrow.parquet as pq
import pytest
from stateful_topology import SPOUT_TASKS, WORD, line, stateful_topology, truth
from test_stateful_words import RATE, SEEDS, is_acked, workers
from test_task_change_kills import stored

from tupletree._wire.codec import decode_value
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing import DevCluster, wait_until

SAVEPOINTS = 3


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("aligned", [False, True], ids=["default", "aligned"])
@pytest.mark.parametrize("seed", SEEDS)
def test_savepoints_are_exact_and_topologies_go_on_from_them_while_workers_die(cluster, aligned, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"words-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    lines = int(20 * RATE)  # still flowing at the last savepoint
    rng = random.Random(seed)
    made = stateful_topology(tmp_path, aligned=aligned, rate=RATE, lines=lines)
    cluster.client.submit("stateful", made, conf)
    taken = [
        with_a_kill(cluster, rng, functools.partial(take, cluster, tmp_path / f"kept-{number}"))
        for number in range(SAVEPOINTS)
    ]
    for place, found in taken:
        if aligned:
            counts, positions = contents(place)
            assert counts == before(positions), place
        assert found.checkpoint == json.loads((place / "savepoint.json").read_text())["checkpoint"]
    last = tmp_path / "last"
    cluster.client.savepoint("stateful", last, kill=True, wait_secs=120)
    wait_until(lambda: not workers(cluster), 30, what="the workers end")
    begin_with = last if not aligned else taken[-1][0]  # going back loses nothing if spouts go back too

    again = stateful_topology(tmp_path, aligned=aligned, rate=RATE, lines=lines, tasks=5)
    cluster.client.submit("stateful", again, conf, from_savepoint=begin_with)
    for _ in range(2):  # the first ones that there are, and those that take their place
        before_it = {process.pid for process in workers(cluster)}
        with_a_kill(cluster, rng, lambda: None)
        wait_until(
            lambda before_it=before_it: {process.pid for process in workers(cluster)} - before_it,
            60,
            what="a successor",
        )
    wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
    end = cluster.client.savepoint("stateful", tmp_path / "end", kill=True, wait_secs=120)
    wait_until(lambda: not workers(cluster), 30, what="the workers end")
    counted, _ = contents(tmp_path / "end")
    expected = truth(lines)
    print(f"{len(taken) + 2} savepoints, {lines} lines, {expected.total()} words, counted {counted.total()}, {end}")
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected
        assert stored(cluster, conf) == (expected, 5)


def with_a_kill(cluster, rng, act):
    """Act while a worker is killed: a little before, or in the middle of it. Return the result."""
    wait_until(lambda: workers(cluster), 60, what="a worker to kill")
    timer = threading.Timer(rng.uniform(0.0, 1.0), kill, (cluster, rng.random()))
    timer.start()
    try:
        return act()
    finally:
        timer.join()


def kill(cluster, share):
    with contextlib.suppress(NotFoundError):  # it has just ended
        cluster.kill("worker", int(share * len(workers(cluster))))


def take(cluster, place):
    """Take a savepoint, as often as the cluster asks for another attempt."""
    while True:
        try:
            return place, cluster.client.savepoint("stateful", place, wait_secs=60)
        except UnavailableError as error:  # the timeout of the test bounds the attempts
            assert not (place / "savepoint.json").exists()
            print("again:", error)


def contents(place):
    """What a savepoint has counted, and the position of each spout's task."""
    counts = Counter()
    manifest = json.loads((place / "savepoint.json").read_text())
    for row in pq.read_table(place / manifest["components"]["count"]["files"]).to_pylist():
        word = decode_value(row["key"])
        assert word not in counts, f"two tasks have counted {word}"
        counts[word] = decode_value(row["value"])
    return counts, manifest["positions"].get("text")


def before(positions):
    """How often each word occurs in the lines before the positions."""
    counts = Counter()
    for index, position in enumerate(positions):
        for number in range(index, position, SPOUT_TASKS):
            counts.update(WORD.findall(line(number)))
    return counts
