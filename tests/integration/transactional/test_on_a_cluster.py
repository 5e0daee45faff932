"""Pipelining on a cluster of real processes, judged by one file that all tasks append to.

How many batches are in processing at the same time is not timed: a bolt waits, in the middle of a batch, until as many
are there as may be. So the record shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_batches import Add, Numbers, Record, WaitForCompany, exact, totals

from tupletree.testing import DevCluster, wait_until
from tupletree.transactional import TransactionalTopologyBuilder

pytestmark = pytest.mark.long

BATCHES = 48  # a multiple of both limits


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2) as running:
        yield running


@pytest.mark.parametrize("pending", [1, 8])
def test_as_many_batches_as_allowed_are_active_never_more_and_they_commit_in_order(
    cluster: DevCluster, tmp_path: Path, pending: int
) -> None:
    record, name = Record(tmp_path / "record"), f"pending-{pending}"
    builder = TransactionalTopologyBuilder(name, "numbers", Numbers(BATCHES))
    builder.set_bolt("wait", WaitForCompany(record, pending), 8).shuffle_grouping("numbers")
    builder.set_bolt("add", Add(record, totals(tmp_path))).global_grouping("wait")
    conf = {"topology.max.spout.pending": pending, "topology.workers": 2}
    conf["topology.disable.loadaware.messaging"] = True  # a batch that waits must not hold another one up

    cluster.client.submit(name, builder.create_topology(), conf)
    wait_until(lambda: BATCHES in record.of("commit"), 60, what="every batch is committed")
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="the workers end")

    assert record.of("commit") == list(range(1, BATCHES + 1))
    assert sorted(record.of("begin")) == list(range(1, BATCHES + 1))
    active, most = set(), 0
    for event in record.events():
        if event.what == "begin":
            active.add(event.txid)
        else:
            active.remove(event.txid)
        most = max(most, len(active))
        assert all(txid < min(active) + pending for txid in active)
    assert most == pending
    assert totals(tmp_path).items() == exact(BATCHES)
