"""The same transactional id goes on where it stopped: after a kill, after a crash of everything, in any ensemble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from recorded_batches import Record, adding, exact, totals

from tests.variants import at_night_but
from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.testing import DevCluster, wait_until
from tupletree.transactional import MemoryTransactionalSpout
from tupletree.transactional.status import Status, load_status, transactional_ids
from tupletree.transactional.streams import MAX_GROUP

pytestmark = pytest.mark.long

PENDING = 8
CONF = {"topology.max.spout.pending": PENDING}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=2) as running:
        yield running


def workers(cluster: DevCluster) -> list[int]:
    """The indexes of the living workers."""
    return list(range(sum(process.role == "worker" for process in cluster.processes)))


def kill(cluster: DevCluster, name: str) -> None:
    """Kill a topology and wait until its processes have ended."""
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not workers(cluster), 60, what="the workers end")


def status(conf: dict[str, Any], transactional_id: str) -> Status:
    store = open_store(conf)
    try:
        return load_status(store, transactional_id)
    finally:
        store.close()


def check(directory: Path, committed: int, numbers: int | None = None) -> None:
    """Every transaction up to ``committed`` took effect once, in order; no other did.

    ``numbers``: how many of them had a number, if some at the end of a source were empty.
    """
    commits = Record(directory / "record").of("commit")
    replays_left_out = [txid for before, txid in zip([0, *commits], commits, strict=False) if txid != before]
    assert replays_left_out == list(range(1, committed + 1))
    assert totals(directory).items() == {**exact(committed if numbers is None else numbers), "batches": committed}


def committed_at_least(directory: Path, count: int) -> None:
    """Wait until so many transactions have had their effect."""
    table = totals(directory)
    wait_until(lambda: table.get_one("batches", 0) >= count, 100, what=f"{count} commits")


def finish(cluster: DevCluster, transactional_id: str, directory: Path, last: int) -> None:
    """Let it come to an end at transaction ``last``, and judge."""
    cluster.client.submit("last", adding(transactional_id, directory, last), CONF)
    committed_at_least(directory, last)
    wait_until(lambda: status(cluster.conf, transactional_id).committed == last, 10, what="the end is recorded")
    kill(cluster, "last")
    check(directory, last)


def test_a_topology_that_was_killed_goes_on_at_the_next_transaction(cluster: DevCluster, tmp_path: Path) -> None:
    record, before = Record(tmp_path / "record"), 0
    for run in (1, 2, 3):
        told = len(record.of("commit"))
        cluster.client.submit(f"run-{run}", adding("killed", tmp_path), CONF)
        committed_at_least(tmp_path, before + 50)
        kill(cluster, f"run-{run}")
        assert record.of("commit")[told] == before + 1
        after = status(cluster.conf, "killed")
        assert (after.epoch, after.committed > before) == (run, True)
        before = after.committed
    finish(cluster, "killed", tmp_path, before + 20)


@pytest.mark.long
def test_a_crash_of_everything_repeats_and_skips_nothing(cluster: DevCluster, tmp_path: Path) -> None:
    cluster.client.submit("crash", adding("crash", tmp_path), {**CONF, "topology.workers": 2})
    committed_at_least(tmp_path, 50)
    cluster.kill("supervisor")
    while workers(cluster):
        cluster.kill("worker")
    for role, index in (("acker", 0), ("acker", 1), ("nimbus", 0), ("zookeeper", 0)):
        cluster.kill(role, index)
    told = Record(tmp_path / "record").of("commit")[-1]

    cluster.restart("zookeeper")
    before = status(cluster.conf, "crash")
    assert told - 1 <= before.committed <= told
    for role, index in (("nimbus", 0), ("acker", 0), ("acker", 1), ("supervisor", 0)):
        cluster.restart(role, index)
    committed_at_least(tmp_path, before.committed + 50)
    kill(cluster, "crash")
    after = status(cluster.conf, "crash")
    assert after.epoch > before.epoch
    finish(cluster, "crash", tmp_path, after.committed + 20)


@pytest.mark.parametrize(
    "victim",
    at_night_but(["acker"], ["acker", "worker", "supervisor and worker"]),
)
def test_groups_take_effect_once_whatever_is_killed_amid_them(cluster: DevCluster, tmp_path: Path, victim: str) -> None:
    conf = {"topology.max.spout.pending": 64, "topology.workers": 2}
    cluster.client.submit("groups", adding(f"groups {victim}", tmp_path, 6_000, in_groups=True), conf)
    for part in (1_000, 2_500):
        committed_at_least(tmp_path, part)
        for role in victim.split(" and "):
            cluster.kill(role)
        for role in victim.split(" and "):
            if role != "worker":
                cluster.restart(role)
    committed_at_least(tmp_path, 6_000)
    wait_until(lambda: status(cluster.conf, f"groups {victim}").committed == 6_000, 30, what="the end is recorded")
    kill(cluster, "groups")
    assert totals(tmp_path).items() == exact(6_000)
    newest = 0
    for txid in Record(tmp_path / "record").of("commit"):
        assert newest - MAX_GROUP < txid <= newest + 1  # a replay, or the next one
        newest = max(newest, txid)


def test_another_ensemble_holds_the_progress_if_one_is_named(
    cluster: DevCluster, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    own = {"transactional.zookeeper.servers": [zookeeper.host], "transactional.zookeeper.port": zookeeper.port}
    for last in (20, 40):
        cluster.client.submit("elsewhere", adding("elsewhere", tmp_path, last), {**CONF, **own})
        committed_at_least(tmp_path, last)
        kill(cluster, "elsewhere")
    check(tmp_path, 40)
    assert status({**cluster.conf, **own}, "elsewhere").epoch == 2
    store = open_store(cluster.conf)
    assert "elsewhere" not in transactional_ids(store)
    store.close()


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a transaction takes a few ms, and more where other tests run
def test_two_thousand_transactions_leave_as_many_nodes_as_a_hundred(cluster: DevCluster, tmp_path: Path) -> None:
    client = connect(cluster.conf)
    path = f"{cluster.conf['transactional.zookeeper.root']}/nodes"
    on_the_way, left = [], []
    try:
        for last in (100, 2_000):
            rows = [[number] for number in range(1, last + 1)]
            topology = adding("nodes", tmp_path, spout=MemoryTransactionalSpout([rows], ["number"], 1))
            cluster.client.submit("nodes", topology, CONF)
            for part in range(last // 10, last + 1, last // 10):
                added_up(tmp_path, part)
                on_the_way.append(nodes(client, path))
            wait_until(lambda: is_quiet(status(cluster.conf, "nodes")), 10, what="nothing is under way")
            kill(cluster, "nodes")
            left.append(nodes(client, path))
    finally:
        disconnect(client)
    committed = status(cluster.conf, "nodes").committed
    check(tmp_path, committed, last)
    assert last <= committed < last + 2 * PENDING  # each run may end with empty ones: PartitionCoordinator.has_more
    assert left[0] == left[1]
    assert max(on_the_way) <= left[0] + PENDING


def added_up(directory: Path, numbers: int) -> None:
    """Wait until so many numbers have had their effect, in however many batches."""
    table, wanted = totals(directory), exact(numbers)["sum"]
    wait_until(lambda: table.get_one("sum", 0) >= wanted, 100, what=f"{numbers} numbers")


def is_quiet(now: Status) -> bool:
    return now.begun == now.committed


def nodes(client: KazooClient, path: str) -> int:
    """How many nodes there are from a path on."""
    try:
        return 1 + sum(nodes(client, f"{path}/{name}") for name in client.get_children(path))
    except NoNodeError:  # it went while we looked
        return 0
