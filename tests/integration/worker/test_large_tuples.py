"""Large tuples between two worker processes: all arrive, and one that is too large fails alone, with an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench._large import NAME, spout_stats, topology
from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.client import ComponentError
from tupletree.component import BasicCollector
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

LIMIT = 1024 * 1024


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=1) as running:
        yield running


@pytest.fixture(autouse=True)
def killed(cluster: DevCluster) -> Iterator[None]:
    yield
    cluster.client.kill(NAME, wait_secs=0)
    wait_until(lambda: not [p for p in cluster.processes if p.role == "worker"], 30, what="the workers end")


@pytest.mark.long
@pytest.mark.parametrize(("count", "size", "burst"), [(2000, 100_000, 1000), (16, 3_000_000, 8)])
def test_bursts_that_no_message_could_hold_arrive_and_nothing_fails(
    cluster: DevCluster, count: int, size: int, burst: int
) -> None:
    cluster.client.submit(NAME, topology(count, size, burst), {"topology.workers": 2})
    wait_until(lambda: spout_stats(cluster).acked == count or spout_stats(cluster).failed, 60, what="all are acked")
    assert (spout_stats(cluster).acked, spout_stats(cluster).failed) == (count, 0)


class OneTooLarge(Spout):
    """Emits 199 small tuples and a large one at once."""

    outputs = ("number", "blob")

    def __init__(self) -> None:
        self.has_emitted = False

    def next_tuple(self) -> None:
        if not self.has_emitted:
            self.has_emitted = True
            for number in range(200):
                self.collector.emit([number, bytes(LIMIT + 1 if number == 100 else 10)], number)


class Sink(BasicBolt):
    """Takes what comes."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def errors(cluster: DevCluster) -> list[ComponentError]:
    return list(cluster.client.describe(NAME).errors)


@pytest.mark.long
def test_a_tuple_above_the_limit_fails_at_once_and_alone_and_the_user_is_told(cluster: DevCluster) -> None:
    builder = TopologyBuilder()
    builder.set_spout("blobs", OneTooLarge())
    builder.set_bolt("sink", Sink()).shuffle_grouping("blobs")
    conf = {"topology.workers": 2, "topology.tuple.max.bytes": LIMIT, "topology.enable.message.timeouts": False}
    cluster.client.submit(NAME, builder.create_topology(), conf)
    wait_until(lambda: spout_stats(cluster).acked + spout_stats(cluster).failed == 200, 60, what="all have ended")
    assert (spout_stats(cluster).acked, spout_stats(cluster).failed) == (199, 1)
    wait_until(lambda: errors(cluster), 30, what="the error is told")
    (error,) = errors(cluster)
    assert error.component_id == "blobs"
    assert "field 'blob'" in error.message
    assert f"topology.tuple.max.bytes ({LIMIT})" in error.message
