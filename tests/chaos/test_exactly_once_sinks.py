"""kill -9 of workers, ackers and nimbuses under a topology that writes to a sink: each row is written once.

A table shows by its triggers what an upsert hides: every write is logged. Files and tables of
a lake show what is written twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import uuid
from collections import Counter
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest
from kills_in_turn import KILL_EVERY_S, kill_in_turn, workers
from sink_topology import COLUMNS, sink_topology
from stateful_topology import line
from test_stateful_words import await_committed, is_acked

from tests.variants import at_night_but
from tupletree.connectors.delta import DeltaSink
from tupletree.connectors.file_sinks import ParquetSink
from tupletree.connectors.sqlite import SqliteSink
from tupletree.testing import DevCluster, wait_until

SECONDS = float(os.environ.get("TUPLETREE_CHAOS_SECONDS", "20"))
SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]
RATE = 400
CODE = [str(Path(__file__).with_name(name)) for name in ("sink_topology.py", "stateful_topology.py")]


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=2, ackers=2, nimbuses=2) as running:
        yield running


class SqliteTable:
    """A file with a table that logs its writes."""

    def __init__(self, directory):
        self.path = directory / "lines.db"
        self.sink = SqliteSink(self.path, "lines", COLUMNS, key="number")
        self.query("CREATE TABLE lines (number INTEGER PRIMARY KEY, length INTEGER)")
        self.query("CREATE TABLE log (number INTEGER)")
        for event in ("INSERT", "UPDATE"):
            self.query(
                f"CREATE TRIGGER on_{event} AFTER {event} ON lines BEGIN INSERT INTO log VALUES (new.number); END"
            )

    def query(self, statement):
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def writes(self):
        """Return the numbers of all lines that were ever written."""
        return [number for (number,) in self.query("SELECT number FROM log")]

    def rows(self):
        return self.query("SELECT number, length FROM lines ORDER BY number")


class ParquetFiles:
    """A directory of files, read by PyArrow."""

    def __init__(self, directory):
        self.path = directory / "lines"
        self.sink = ParquetSink(self.path, COLUMNS)

    def writes(self):
        return [number for number, _ in self.rows()]

    def rows(self):
        table = pq.read_table(self.path)
        return sorted(zip(table["number"].to_pylist(), table["length"].to_pylist(), strict=True))


class LakeTable:
    """A Delta table."""

    def __init__(self, directory):
        self.path = directory / "lake"
        self.sink = DeltaSink(self.path, COLUMNS)

    def writes(self):
        return [number for number, _ in self.rows()]

    def rows(self):
        table = deltalake.DeltaTable(self.path).to_pyarrow_table()
        return sorted(zip(table["number"].to_pylist(), table["length"].to_pylist(), strict=True))


@pytest.fixture(params=at_night_but([LakeTable], [SqliteTable, ParquetFiles, LakeTable]))
def place(request, tmp_path):
    return request.param(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_written_once_whatever_is_killed(cluster, place, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.acker.executors": 2,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.checkpoint.aligned": True,
        "topology.state.id": f"lines-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    lines = int(SECONDS * RATE * 1.2)  # still flowing when the kills end
    cluster.client.submit("lines", sink_topology(tmp_path, place.sink, rate=RATE, lines=lines), conf, code=CODE)
    try:
        kills = kill_in_turn(cluster, random.Random(seed), SECONDS).total()
        wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
        await_committed(cluster, conf)
    finally:
        cluster.client.kill("lines", wait_secs=0)
        wait_until(lambda: not workers(cluster), 30, what="the workers end")
    writes = place.writes()
    print(f"{kills} kills, {lines} lines, {len(writes)} writes")
    assert [number for number, times in Counter(writes).items() if times > 1] == []
    assert place.rows() == [(number, len(line(number))) for number in range(lines)]
    assert kills >= SECONDS / KILL_EVERY_S
