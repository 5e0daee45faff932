"""Keyed states, timers, windows and positions move, are migrated and go on with other code, amid kill -9.

Each seed is another order of: two rescales of all of it, two updates, a rollback; and other processes that are killed
between and during these steps. With aligned checkpoints everything is counted once.

TUPLETREE_CHAOS_SEEDS makes more of it.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import uuid
from pathlib import Path

import pytest
from keyed_topology import CLOCK
from moving_topology import (
    ENDS,
    KEYS,
    PARTITIONS,
    CountByAdding,
    CountInLists,
    moving_topology,
    truths,
)
from test_stateful_words import workers

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import load_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree._wire.codec import decode_value
from tupletree.client import TopologyStatus
from tupletree.errors import NotFoundError
from tupletree.state.providers import open_reader
from tupletree.testing import DevCluster, wait_until
from tupletree.worker.checkpoint.spout_participant import POSITION

SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]
RATE = 300
EVENTS = 36_000
"""Two minutes of them; as fast as they can be from when the last step is done."""
CODE = [
    str(Path(__file__).with_name(name)) for name in ("moving_topology.py", "keyed_topology.py", "stateful_topology.py")
]
BOLTS = ("count", "windows", "tumbling", "sessions", "totals")


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as running:
        yield running


class Scene:
    """The topology, and what is done to it: each step returns the numbers of tasks and the version to come."""

    def __init__(self, cluster, directory, conf):
        self.cluster = cluster
        self.client = cluster.client
        self.directory = directory
        self.conf = conf

    def submit(self):
        self.client.submit("moving", moving_topology(self.directory, rate=RATE, events=EVENTS), self.conf, code=CODE)

    def drawn_steps(self, rng):
        """The steps in an order that the product allows: no rollback over values that were migrated."""
        rescales, versions = [self.to_six, self.to_three], [self.to_other_code, self.back, self.to_other_values]
        order = [rescales] * len(rescales) + [versions] * len(versions)
        rng.shuffle(order)
        return [steps.pop(0) for steps in order]

    def to_six(self, wait_s):
        return self.client.rebalance("moving", wait_s, tasks={**dict.fromkeys(BOLTS, 6), "events": 4}).version

    def to_three(self, wait_s):
        return self.client.rebalance("moving", wait_s, tasks={**dict.fromkeys(BOLTS, 3), "events": 1}).version

    def to_other_code(self, wait_s):
        return self._update(CountByAdding, wait_s)

    def to_other_values(self, wait_s):
        return self._update(CountInLists, wait_s)

    def back(self, wait_s):
        return self.client.rollback("moving", wait_s).pending.update.number

    def _update(self, count, wait_s):
        topology = moving_topology(self.directory, rate=RATE, events=EVENTS, count=count)
        answer = self.client.update("moving", topology, self.conf, code=CODE, wait_secs=wait_s)
        return answer.record.pending.update.number

    def is_settled(self):
        record = self.client.describe("moving").summary.record
        return record.status is TopologyStatus.ACTIVE and not record.trial_began_unix_s

    def version(self):
        return self.client.describe("moving").summary.record.version

    def kill_one(self, rng):
        """Kill a worker, or nimbus or the acker, which are started again."""
        role = rng.choice(["worker", "worker", "worker", "nimbus", "acker"])
        if role != "worker":
            self.cluster.kill(role)
            self.cluster.restart(role)
            return role
        wait_until(lambda: workers(self.cluster), 60, what="a worker to kill")
        with contextlib.suppress(NotFoundError):  # it has just ended
            self.cluster.kill("worker", rng.randrange(len(workers(self.cluster))))
        return role

    def take_steps(self, rng):
        """Take the steps, with kills before, during and after each; return who was killed, and the pauses."""
        killed, pauses_s = [], {}
        for step in self.drawn_steps(rng):
            began_s = time.monotonic()
            expected = step(rng.choice([0, 0, 1]))
            for _ in range(rng.choice([0, 1, 2])):
                kill_s = time.monotonic() + rng.uniform(0.0, 1.5)
                wait_until(lambda kill_s=kill_s: time.monotonic() > kill_s, 10)
                killed.append(self.kill_one(rng))
            wait_until(self.is_settled, 120, what=f"{step.__name__} is over")
            assert self.version() == expected
            killed.append(self.kill_one(rng))
            reached = self.checkpoint().txid
            wait_until(lambda reached=reached: self.checkpoint().txid > reached + 1, 120, what="checkpoints go on")
            pauses_s[step.__name__] = round(time.monotonic() - began_s, 1)
        print(f"killed: {killed}; seconds of each step, until checkpoints go on: {pauses_s}")
        return killed

    # What is stored

    def checkpoint(self):
        with contextlib.closing(open_store(self.cluster.conf)) as store:
            return load_checkpoint(store, self.conf["topology.state.id"])[0]

    def stored(self, component):
        """The committed entries of a component, of all tasks; no key is in two, but for those of whole tasks."""
        checkpoint, found = self.checkpoint(), {}
        tasks, layout = checkpoint.tasks[component], checkpoint.layouts.get(component, 0)
        for index in range(tasks):
            name = namespace_of(self.conf["topology.state.id"], component, index, tasks, layout)
            with contextlib.closing(open_reader(name, self.conf)) as reader:
                for key, value in reader.scan(b"", 1_000_000, 1 << 30):
                    entry = decode_value(key)
                    is_whole = type(entry) is tuple and len(entry) == 1
                    assert is_whole or component == "events" or entry not in found, f"two tasks have {entry}"
                    found[(index, entry) if is_whole or component == "events" else entry] = decode_value(value)
        return found

    def positions(self):
        """The position of each partition, as its task has committed it."""
        stored = self.stored("events")
        tasks = self.checkpoint().tasks["events"]
        found = [stored.get((one % tasks, POSITION), {}).get(str(one), 0) for one in range(PARTITIONS)]
        return [max(one, -1 - one) for one in found]

    def is_over(self):
        ends = [len(range(one, EVENTS, PARTITIONS)) + len(ENDS) for one in range(PARTITIONS)]
        return self.checkpoint().phase is Phase.COMMITTED and self.positions() == ends


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_everything_counts_once_whatever_is_changed_and_killed(cluster, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 10,
        "topology.state.checkpoint.interval.ms": 500,
        "topology.state.checkpoint.aligned": True,
        "topology.state.id": f"moving-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    scene = Scene(cluster, tmp_path, conf)
    scene.submit()
    try:
        wait_until(lambda: is_begun(scene), 60, what="the first checkpoint")
        killed = scene.take_steps(random.Random(seed))
        emitted = sum(scene.positions())
        (tmp_path / "ends").touch()
        wait_until(scene.is_over, 180, what="every event is in a checkpoint")
    finally:
        cluster.client.kill("moving", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    assert emitted < EVENTS, "the events have ended before the changes"
    assert len(killed) >= 5
    check(scene)


def is_begun(scene):
    with contextlib.suppress(NotFoundError):
        return scene.checkpoint().txid > 1
    return False


def check(scene):
    counts = {key: value for key, value in scene.stored("count").items() if key not in ENDS}
    expected = {f"key-{key}": [len(range(key, EVENTS, KEYS))] for key in range(KEYS)}
    assert counts == expected
    assert not any(key for key in scene.stored("late"))
    totals = scene.stored("totals")
    for bolt, truth in truths(EVENTS).items():
        rows = {(key, start): rows for (one, key, start), rows in totals.items() if one == bolt and start != CLOCK}
        assert rows == {window: [count] for window, count in truth.items()}, bolt
    fired = {key: value[1] for key, value in scene.stored("windows").items() if type(key) is str and value[1]}
    assert fired == {key: rows[0] for (_, key, start), rows in totals.items() if start == CLOCK}
    print(f"{EVENTS} events, {len(totals)} windows, {sum(fired.values())} timers of the clock")
