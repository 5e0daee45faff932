"""kill -9 of workers under timers: with aligned checkpoints each timer, its effect and its row count exactly once."""

from __future__ import annotations

import contextlib
import os
import random
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import test_stateful_words
from keyed_topology import CLOCK, SLIDING_MS, TASKS, WINDOW_MS, event, keyed_topology, slid_truth, truth
from test_stateful_words import is_acked, kill_workers, workers

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import load_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.state.providers import open_state
from tupletree.testing import DevCluster, wait_until

SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]
SECONDS = test_stateful_words.SECONDS
RATE = 400
CODE = [str(Path(__file__).with_name(name)) for name in ("keyed_topology.py", "stateful_topology.py")]


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as running:
        yield running


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_timers_count_once_whichever_workers_are_killed(cluster, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 500,
        "topology.state.checkpoint.aligned": True,
        "topology.state.id": f"keyed-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    events = int(SECONDS * RATE * 1.3)  # still flowing when the kills end
    cluster.client.submit("keyed", keyed_topology(tmp_path, rate=RATE, events=events), conf, code=CODE)
    try:
        kills = kill_workers(cluster, random.Random(seed))
        wait_until(lambda: is_acked(tmp_path, events), 240, what="every event is acked")
    finally:
        cluster.client.kill("keyed", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    commits = is_committing(cluster, conf)
    windows, totals, slid = (stored(conf, name, TASKS, commits) for name in ("windows", "totals", "slid"))
    late = stored(conf, "late", 1, commits)
    assert late == {}
    assert kills >= SECONDS / 6

    ticks = {key: counts[0] for (key, start), counts in totals.items() if start == CLOCK}
    assert ticks == {key: value[1] for key, value in windows.items() if type(key) is str and value[1]}
    assert len(ticks) == 7
    over = {key: counts for key, counts in totals.items() if key[1] != CLOCK}
    assert all(len(counts) == 1 for counts in over.values()), "a window was emitted twice"
    last_ms = event(events - 2)[1]  # the older of the newest events of two spout tasks
    assert over.keys() == {key for key in truth(events) if key[1] + WINDOW_MS <= last_ms}
    counted = Counter({key: counts[0] for key, counts in over.items()})
    for key, value in windows.items():
        if type(key) is str:  # not an entry of timers
            counted.update({(key, start): count for start, count in value[0].items()})
    expected = {window: [count] for window, count in slid_truth(events).items() if window[1] + SLIDING_MS <= last_ms}
    assert slid == expected
    print(f"{kills} kills, {events} events, {len(over)} windows, {sum(ticks.values())} timers of the clock")
    assert counted == truth(events)


def is_committing(cluster, conf):
    """True if the workers were killed in the midst of a commit, which their successors would have finished."""
    with contextlib.closing(open_store(cluster.conf)) as store:
        return load_checkpoint(store, conf["topology.state.id"])[0].phase is Phase.COMMITTING


def stored(conf, component, tasks, commits):
    """What the states of a component hold at the last checkpoint."""
    found = {}
    for index in range(tasks):
        _, state = open_state(f"{conf['topology.state.id']}/{component}/{index}", conf, SimpleNamespace(conf=conf))
        if state.prepared is not None:
            state.commit(state.prepared) if commits else state.rollback()
        found.update(state.items())
        state.close()
    return found
