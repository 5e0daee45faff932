"""A topology is updated, rescaled and rolled back again and again while workers are killed with kill -9.

In default mode no count is below the truth, in aligned mode each is the truth.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid

import pytest
from stateful_topology import CannotStart, Count, CountByAdding, stateful_topology, truth
from test_stateful_words import RATE, SECONDS, SEEDS, await_committed, is_acked, workers
from test_task_change_kills import stored

from tupletree.client import TopologyStatus
from tupletree.errors import NotFoundError
from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as running:
        yield running


class Scene:
    """The topology, and what is done to it one after the other: each step returns the version that should run then."""

    def __init__(self, cluster, place, conf, aligned, lines):
        self.cluster = cluster
        self.place = place
        self.conf = conf
        self.aligned = aligned
        self.lines = lines
        self.steps = [self.to_six_tasks, self.to_three_tasks, self.to_what_cannot_start, self.to_the_first, self.back]

    def topology(self, **version):
        return stateful_topology(self.place, aligned=self.aligned, rate=RATE, lines=self.lines, **version)

    def update(self, wait_s, **version):
        answer = self.cluster.client.update("stateful", self.topology(**version), self.conf, wait_secs=wait_s)
        return answer.record

    def to_six_tasks(self, wait_s):
        record = self.update(wait_s, count=CountByAdding, tasks=6)
        return record.pending.update.number if record.pending else record.version  # it runs already, after ``back``

    def to_three_tasks(self, wait_s):
        return self.cluster.client.rebalance("stateful", wait_s, tasks={"count": 3}).version

    def to_what_cannot_start(self, wait_s):
        return self.update(wait_s, count=CannotStart, tasks=6).version

    def to_the_first(self, wait_s):
        return self.update(wait_s, count=Count, tasks=4).pending.update.number

    def back(self, wait_s):
        return self.cluster.client.rollback("stateful", wait_s).pending.update.number

    def record(self):
        return self.cluster.client.describe("stateful").summary.record

    def is_settled(self):
        record = self.record()
        return record.status is TopologyStatus.ACTIVE and not record.trial_began_unix_s

    def take_steps(self, rng, seconds):
        """Take a step when the one before is over, and kill a worker every few seconds; return how often each.

        In every second step nimbus is killed, too.
        """
        kills = taken = 0
        expected, began_s, pauses_s = 0, None, []
        until_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s or taken < len(self.steps):
            if self.is_settled():
                if began_s is not None:
                    pauses_s.append(round(now_s - began_s, 1))
                assert self.record().version == expected
                began_s = time.monotonic()
                expected = self.steps[taken % len(self.steps)](rng.choice([0, 1, 5]))
                taken += 1
                if taken % 2:  # in the pause, or in the trial
                    time.sleep(rng.uniform(0.0, 3.0))
                    self.cluster.kill("nimbus")
                    self.cluster.restart("nimbus")
            next_s = now_s + rng.uniform(1.5, 4.0)
            wait_until(lambda: time.monotonic() > next_s and workers(self.cluster), 60, what="a worker to kill")  # noqa: B023
            with contextlib.suppress(NotFoundError):  # it has just ended
                self.cluster.kill("worker", rng.randrange(len(workers(self.cluster))))
                kills += 1
        wait_until(self.is_settled, 120, what="the last step is over")
        assert self.record().version == expected
        print(f"{taken} steps, {kills} kills, seconds until the next step: {pauses_s}")
        return kills, taken


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("aligned", [False, True], ids=["default", "aligned"])
@pytest.mark.parametrize("seed", SEEDS)
def test_counts_survive_updates_rollbacks_and_kills_of_workers(cluster, aligned, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 500,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"words-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    seconds = 3 * SECONDS
    lines = int(seconds * RATE * 1.3)  # still flowing when the steps end
    scene = Scene(cluster, tmp_path, conf, aligned, lines)
    cluster.client.submit("stateful", scene.topology(), conf)
    try:
        kills, steps = scene.take_steps(random.Random(seed), seconds)
        wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("stateful", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    counted, _ = stored(cluster, conf)
    expected = truth(lines)
    print(f"{lines} lines, {expected.total()} words, counted {counted.total()}")
    assert steps >= 5
    assert kills >= seconds / 6
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected
