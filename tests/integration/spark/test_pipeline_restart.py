"""A pipeline goes on where it stopped: submitted again under the same id, and after a crash of everything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_spark import LOCAL

from tupletree._stores.zookeeper_nodes import open_store
from tupletree.cli.statuses import status_dicts
from tupletree.spark import MemorySource, Pipeline, SqlState
from tupletree.testing import DevCluster, wait_until
from tupletree.transactional.status import Status, load_status

CONF = {**LOCAL, "topology.max.spout.pending": 4}
ROWS = [[[number] for number in range(1, 4001)]]
PER_BATCH = 10
PATIENCE_S = 120

# Three sessions of Spark are started, and a machine may be busy.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class Numbers(Pipeline):
    """Adds up the numbers of 400 batches; the table also counts the rows."""

    def __init__(self, transactional_id: str, database: Path) -> None:
        self.transactional_id = transactional_id
        self.source = MemorySource(ROWS, "number BIGINT", PER_BATCH)
        self.state = SqlState(database, "sums", key="name", add=["rows", "total"], max="newest")

    def process(self, batch):  # type: ignore[no-untyped-def]
        from pyspark.sql import functions as F

        sums = batch.agg(
            F.count("number").alias("rows"), F.sum("number").alias("total"), F.max("number").alias("newest")
        )
        return sums.where("rows > 0").withColumn("name", F.lit("all"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=2) as running:
        yield running


def sums(database: Path) -> tuple[int, int, int]:
    """Rows, their total and the newest of them."""
    if not database.exists():
        return 0, 0, 0
    connection = sqlite3.connect(database)
    try:
        found = connection.execute("SELECT rows, total, newest FROM sums").fetchone()
        return tuple(found) if found else (0, 0, 0)
    except sqlite3.OperationalError:  # the table is not there yet
        return 0, 0, 0
    finally:
        connection.close()


def status(cluster: DevCluster, transactional_id: str) -> Status:
    store = open_store(cluster.conf)
    try:
        return load_status(store, transactional_id)
    finally:
        store.close()


def told(cluster: DevCluster, name: str) -> tuple[int, int]:
    """The last committed transaction as the pipeline and as its coordinator say it, in one answer of ``describe``."""

    def found() -> dict[str, int]:
        statuses = [one["status"] for one in status_dicts(cluster.client.describe(name))]
        keys = {"pipeline": "committed_txid", "coordinator": "committed"}
        found = {one["kind"]: one.get(keys[one["kind"]]) for one in statuses if one.get("kind") in keys}
        return {kind: txid for kind, txid in found.items() if type(txid) is int} if len(found) == 2 else {}

    both = wait_until(lambda: both if len(both := found()) == 2 else None, 30, what="both say what is committed")
    assert both is not None
    return both["pipeline"], both["coordinator"]


def kill(cluster: DevCluster, name: str) -> None:
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="the worker ends")


def reached(database: Path, rows: int) -> None:
    wait_until(lambda: sums(database)[0] >= rows, PATIENCE_S, what=f"{rows} rows")


def check(database: Path, committed: int) -> None:
    """The batches up to ``committed`` took effect, each once, and no other."""
    last = committed * PER_BATCH
    assert sums(database) == (last, last * (last + 1) // 2, last)


@pytest.mark.nightly
def test_killed_and_submitted_again_it_goes_on_at_the_next_transaction(cluster: DevCluster, tmp_path: Path) -> None:
    database, before = tmp_path / "numbers.db", 0
    for run in (1, 2):
        cluster.client.submit(f"run-{run}", Numbers("killed", database).topology(), CONF)
        reached(database, (before + 10) * PER_BATCH)
        own, coordinator = told(cluster, f"run-{run}")
        assert own >= coordinator >= before
        kill(cluster, f"run-{run}")
        after = status(cluster, "killed")
        assert (after.epoch, after.committed > before) == (run, True)
        before = after.committed
        # The last commit may not have been recorded: the next run finds the note of it in the table.
        committed = sums(database)[0] // PER_BATCH
        assert committed in (before, before + 1)
        check(database, committed)


@pytest.mark.nightly
def test_a_crash_of_everything_repeats_and_skips_nothing(cluster: DevCluster, tmp_path: Path) -> None:
    database = tmp_path / "numbers.db"
    cluster.client.submit("crash", Numbers("crash", database).topology(), CONF)
    reached(database, 10 * PER_BATCH)
    cluster.kill("supervisor")
    while [one for one in cluster.processes if one.role == "worker"]:
        cluster.kill("worker")
    for role, index in (("acker", 0), ("acker", 1), ("nimbus", 0), ("zookeeper", 0)):
        cluster.kill(role, index)
    committed = sums(database)[0] // PER_BATCH
    check(database, committed)

    for role, index in (("zookeeper", 0), ("nimbus", 0), ("acker", 0), ("acker", 1), ("supervisor", 0)):
        cluster.restart(role, index)
    assert committed - 1 <= status(cluster, "crash").committed <= committed
    reached(database, (committed + 10) * PER_BATCH)
    kill(cluster, "crash")
    check(database, sums(database)[0] // PER_BATCH)
