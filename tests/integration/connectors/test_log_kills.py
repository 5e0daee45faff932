"""kill -9 of workers and ackers while a log is read: none is lost; with aligned checkpoints none counts twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import killed_tally
import killed_topology
import pytest
from killed_tally import tallying
from killed_topology import appending, done
from log_place import LogPlace
from log_places import LOGS
from sqlite_counts import counts

from tests.variants import at_night_but
from tupletree.connectors.formats import Text
from tupletree.testing import DevCluster, wait_until

MESSAGES = [str(number) for number in range(9_000)]


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=2) as running:
        yield running


@pytest.fixture(params=at_night_but(["kafka"], sorted(LOGS)))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogPlace]:
    made: LogPlace = LOGS[request.param](tmp_path)
    yield made
    made.close()


def put(place: LogPlace, texts: list[str]) -> None:
    for partition in range(3):
        place.put(partition, [text.encode() for text in texts[partition::3]])


def kill_on_the_way(cluster: DevCluster, share: Callable[[], float]) -> None:
    wait_until(lambda: share() > 0.1, 60, what="it gets on")
    cluster.kill("worker", 0)
    wait_until(lambda: share() > 0.3, 60, what="it goes on without a worker")
    cluster.kill("acker", 0)
    wait_until(lambda: share() > 0.5, 60, what="it goes on without an acker")
    cluster.kill("worker", 1)


@pytest.mark.nightly
@pytest.mark.timeout(420)
def test_no_message_is_lost_with_a_worker_or_an_acker(cluster: DevCluster, place: LogPlace, tmp_path: Path) -> None:
    put(place, MESSAGES)
    conf = {"topology.workers": 2, "topology.max.spout.pending": 500}
    cluster.client.submit("appends", appending(place.spout(Text()), tmp_path), conf, code=[killed_topology.__file__])
    kill_on_the_way(cluster, lambda: len(done(tmp_path)) / len(MESSAGES))
    wait_until(lambda: len(done(tmp_path)) == len(MESSAGES), 120, what="all are processed")
    wait_until(place.is_processed, 120, what="the log knows it")  # lost acks are noticed by timeouts
    cluster.client.kill("appends", wait_secs=60)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="its workers end")
    before = done(tmp_path)
    place.put(0, [b"new"])
    cluster.client.submit("appends", appending(place.spout(Text()), tmp_path), conf, code=[killed_topology.__file__])
    wait_until(lambda: done(tmp_path)["new"] == 1, 60, what="it resumes")
    assert done(tmp_path) - before == Counter(["new"]), "it resumed behind all that was processed"


@pytest.mark.long
def test_with_aligned_checkpoints_a_kill_counts_nothing_twice(
    cluster: DevCluster, place: LogPlace, tmp_path: Path
) -> None:
    put(place, MESSAGES)
    states = tmp_path / "states"
    conf: dict[str, Any] = {
        "topology.workers": 2,
        "topology.max.spout.pending": 200,
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 200,
        "topology.state.id": "tally",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(states)},
    }
    cluster.client.submit("tally", tallying(place.spout(Text())), conf, code=[killed_tally.__file__])
    kill_on_the_way(cluster, lambda: sum(counts(states, "tally-tally-*.db").values()) / len(MESSAGES))
    wait_until(lambda: sum(counts(states, "tally-tally-*.db").values()) >= len(MESSAGES), 120, what="all are counted")
    assert counts(states, "tally-tally-*.db") == Counter(MESSAGES)
    cluster.client.kill("tally", wait_secs=60)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="its workers end")
    assert counts(states, "tally-tally-*.db") == Counter(MESSAGES), "nothing came twice"
