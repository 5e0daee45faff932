"""A worker dies at a chosen moment of a checkpoint: recovery ends what was begun, and nothing is lost."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from crashing_topology import crashing_topology
from stateful_topology import truth
from test_stateful_words import await_committed, is_acked, stored, workers

from tests.variants import at_night_but
from tupletree.testing import DevCluster, wait_until

LINES, RATE = 1200, 400
CODE = [str(Path(__file__).with_name(name)) for name in ("crashing_topology.py", "stateful_topology.py")]


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=1, slots=3, ackers=1) as running:
        yield running


def conf_of(aligned, directory):
    return {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.checkpoint.aligned": aligned,
        "topology.state.id": f"crash-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(directory)},
    }


def run(cluster, topology, conf, directory, meanwhile=lambda: None):
    """Run it until every line is acked; return what was counted."""
    cluster.client.submit("crashing", topology, conf, code=CODE)
    try:
        meanwhile()
        wait_until(lambda: is_acked(directory, LINES), 120, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("crashing", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    return stored({**conf, "topology.state.provider": "sqlite"})


def judge(counted, aligned):
    expected = truth(LINES)
    assert not {word: (counted[word], count) for word, count in expected.items() if counted[word] < count}
    if aligned:
        assert counted == expected


@pytest.mark.timeout(300)
@pytest.mark.parametrize("aligned", at_night_but([True], [False, True]), ids=["default", "aligned"])
@pytest.mark.parametrize("moment", ["before-prepare", "before-commit", "checkpoint-spout", "after-commit"])
def test_a_crash_at_any_moment_of_a_checkpoint_loses_nothing(cluster, tmp_path, aligned, moment):
    conf = conf_of(aligned, tmp_path)
    if moment == "after-commit":
        conf["topology.state.provider"] = "crashing_topology.DyingProvider"
    topology = crashing_topology(tmp_path, aligned=aligned, moment=moment, lines=LINES, rate=RATE)
    counted = run(cluster, topology, conf, tmp_path)
    assert (tmp_path / "died").exists(), "a worker died at that moment"
    judge(counted, aligned)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("aligned", at_night_but([True], [False, True]), ids=["default", "aligned"])
def test_half_of_the_workers_dying_at_once_loses_nothing(cluster, tmp_path, aligned):
    def kill_half():
        wait_until(lambda: is_acked(tmp_path, LINES // 4), 60, what="something is committed")
        for _ in range(2):
            cluster.kill("worker", 0)

    topology = crashing_topology(tmp_path, aligned=aligned, moment="", lines=LINES, rate=RATE)
    judge(run(cluster, topology, conf_of(aligned, tmp_path), tmp_path, kill_half), aligned)
