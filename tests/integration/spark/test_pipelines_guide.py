"""The examples of docs/guides/pipelines.md run on a real Spark, and do what the guide says."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from document_blocks import DOCS, blocks_of, execute, run_python
from local_components import DoBasic, Log
from local_spark import LOCAL
from pyspark.sql import SparkSession

from tupletree.spark import ForeachBatch
from tupletree.testing import LocalCluster
from tupletree.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder

GUIDE = DOCS / "guides" / "pipelines.md"
STREAMING = "## Both ways with Structured Streaming"
PATIENCE_S = 150  # the first job of a session takes long where other tests run
CONF = {**LOCAL, "topology.message.timeout.secs": PATIENCE_S}


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> dict[str, Any]:
    """The names that the blocks before the part on streaming define, in a directory with the files that they read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("To be, or not\nto be\n")
    (tmp_path / "logs").mkdir()
    errors = {"api": 120, "web": 3}
    lines = [{"service": service, "level": "ERROR"} for service, number in errors.items() for _ in range(number)]
    lines += [{"service": "web", "level": "INFO"}] * 200
    (tmp_path / "logs" / "today.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return run_python(GUIDE, before=STREAMING)


def table(path: Path, query: str) -> dict[str, int]:
    """Return the pairs that a query finds; none before there is a table."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        try:
            return dict(connection.execute(query).fetchall())
        except sqlite3.OperationalError:
            return {}


def test_pipelines_count_alert_and_pass_rows_on(
    names: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster() as cluster:
        cluster.submit("words", names["WordCount"]().topology(), CONF)
        counts = {"to": 2, "be": 2, "or": 1, "not": 1}
        query = "SELECT word, count FROM counts"
        cluster.wait_until(lambda: table(tmp_path / "counts.db", query) == counts, PATIENCE_S)
        cluster.submit("rates", names["topology"](), CONF)
        query = "SELECT service, errors FROM rates"
        cluster.wait_until(lambda: table(tmp_path / "rates.db", query) == {"api": 120, "web": 3}, PATIENCE_S)
        printed: list[str] = []
        cluster.wait_until(lambda: printed.append(capfd.readouterr().out) or "api: 120 errors\n" in "".join(printed))
        assert "web: " not in "".join(printed)


def test_a_source_of_ones_own_is_read_and_a_batch_bolt_gets_a_data_frame(names: dict[str, Any]) -> None:
    sums, kept = Log(), Log()

    class Sums(names["Pipeline"]):  # type: ignore[misc]
        source = names["Numbers"]()
        state = ForeachBatch(lambda result, txid: sums.append((txid, result.groupBy().sum().first()[0])))

    views = MemoryTransactionalSpout([[["ann", "/"], ["bob", "/"], ["ann", "/cart"]]], ["user", "page"], 3)
    builder = TransactionalTopologyBuilder("sessions", "views", views)
    builder.set_bolt("sessions", names["Sessions"]()).shuffle_grouping("views")
    builder.set_bolt("keep", DoBasic(lambda tup, _: kept.append((tup["user"], tup["pages"])))).shuffle_grouping(
        "sessions"
    )
    with LocalCluster() as cluster:
        cluster.submit("sums", Sums().topology(), CONF)
        truth = {(1, sum(range(1000))), (2, sum(range(1000, 2000)))}
        # empty batches can begin while the last rows are in flight: their sum is None
        cluster.wait_until(lambda: {one for one in sums if one[1] is not None} == truth, PATIENCE_S)
        cluster.submit("sessions", builder.create_topology(), CONF)
        cluster.wait_until(lambda: set(kept) == {("ann", 2), ("bob", 1)}, PATIENCE_S)


@pytest.mark.nightly
def test_a_spark_program_takes_rows_from_one_topology_to_another(
    names: dict[str, Any], tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    replaced = {
        "/shared/": f"{tmp_path}/",
        'option("topology", "words")': f'option("path", "{tmp_path}/counts")',  # a LocalCluster has no nimbus to ask
        'option("topology", "scores")': f'option("path", "{tmp_path}/scores")',
    }
    topologies, program = (block for block in blocks_of(GUIDE, after=STREAMING) if block.kind == "python")
    execute(topologies, GUIDE, names, replaced)
    shown: list[str] = []
    with LocalCluster() as cluster:
        cluster.submit("words", names["words"].create_topology())
        cluster.submit("scores", names["scores"].create_topology())
        cluster.wait_until(lambda: cluster.counts("words")["out"].acked > 0 and any((tmp_path / "counts").glob("*")))
        cluster.wait_until(lambda: any((tmp_path / "scores").glob("*")))
        execute(program, GUIDE, names, replaced)
        try:

            def has_shown() -> bool:
                shown.extend(capfd.readouterr().out.splitlines())
                return {"to 2", "be 2", "not 1"} <= set(shown)

            cluster.wait_until(has_shown, PATIENCE_S)
        finally:
            for query in spark.streams.active:
                query.stop()
    assert [line for line in shown if line.startswith("or ")] == []
