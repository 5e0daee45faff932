"""ExactlyOnceSinkBolt and RowSinkBolt in topologies of this process: rows, refusals, values that cannot be stored."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_components import Log
from replayed_rows import PositionedWords, Words

from tupletree import BasicBolt, TopologyBuilder
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import ConfigError, TaskFailedError, TopologyError
from tupletree.testing import DevCluster, LocalCluster, wait_until
from tupletree.topology import Topology

COLUMNS = {"word": "string", "count": "bigint"}
ROWS: list[tuple[str, Any]] = [(f"w{number}", number) for number in range(20)]


class Keep(BasicBolt):
    """Keeps what it gets."""

    got: list[list[Any]] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.got.append(tup.values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.db"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    Keep.got.clear()
    with LocalCluster() as running:
        yield running


def conf(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 100,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
        **changes,
    }


def topology(path: Path, rows: list[tuple[str, Any]], *, bolt: type = ExactlyOnceSinkBolt) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", PositionedWords(rows) if bolt is ExactlyOnceSinkBolt else Words(rows))
    sink = SqliteSink(path, "counts", COLUMNS, key="word")
    builder.set_bolt("out", bolt(sink), 2).fields_grouping("words", "word")
    if bolt is ExactlyOnceSinkBolt:
        builder.set_bolt("rejected", Keep()).shuffle_grouping("out", "rejected")
    return builder.create_topology()


def counts(path: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone():
            return {}
        return dict(connection.execute("SELECT word, count FROM counts").fetchall())


def test_rows_are_written_when_their_checkpoint_commits(cluster: LocalCluster, tmp_path: Path, path: Path) -> None:
    cluster.submit("words", topology(path, ROWS), conf(tmp_path))
    wait_until(lambda: counts(path) == dict(ROWS), 30, what="every row is written")


def test_a_value_that_cannot_be_stored_is_rejected_and_stops_nothing(
    cluster: LocalCluster, tmp_path: Path, path: Path
) -> None:
    rows = [*ROWS[:5], ("bad", "many"), *ROWS[5:]]
    cluster.submit("words", topology(path, rows), conf(tmp_path))
    wait_until(lambda: counts(path) == dict(ROWS), 30, what="every other row is written")
    [[row, reason]] = Keep.got
    assert row == ["bad", "many"]
    assert reason.startswith("table 'counts': the value 'many' of field 'count' cannot be stored as bigint")
    assert [str(error) for _, error in cluster.errors("words")] == [reason]


def test_a_topology_continues_from_its_last_checkpoint(tmp_path: Path, path: Path) -> None:
    for rows in (ROWS[:10], ROWS):
        with LocalCluster() as cluster:
            cluster.submit("words", topology(path, rows), conf(tmp_path, **{"topology.state.id": f"w{len(rows)}"}))
            wait_until(lambda: counts(path) == dict(rows), 30, what="every row is written")  # noqa: B023


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"work": "string", "count": "bigint", "word": "string", "home": "string"}, ("ann", "h", "w", None)),
        ({"word": "string", "count": "bigint", "mail": "string", "work": "string"}, ("ann", None, "w", None)),
    ],
    ids=["another order", "a column more and one less"],
)
def test_rows_that_wait_in_the_state_are_written_by_the_names_of_their_fields_when_the_sink_has_changed(
    cluster: LocalCluster, tmp_path: Path, path: Path, columns: dict[str, str], expected: tuple[Any, ...]
) -> None:
    class Places(PositionedWords):
        outputs = ("word", "count", "home", "work", "mail")  # type: ignore[assignment]

    def submit(name: str, columns: dict[str, str]) -> None:
        builder = TopologyBuilder()
        builder.set_spout("places", Places([("ann", 1, "h", "w", "m")]))  # type: ignore[list-item]
        sink = SqliteSink(path, "places", columns, key="word")
        builder.set_bolt("out", ExactlyOnceSinkBolt(sink)).shuffle_grouping("places")
        cluster.submit(name, builder.create_topology(), conf(tmp_path, **{"topology.state.id": "places"}))

    first = {"word": "string", "count": "bigint", "home": "string", "work": "string"}
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE places (word TEXT PRIMARY KEY, must TEXT NOT NULL)")
        submit("first", first)
        wait_until(lambda: cluster.errors("first"), 30, what="the table refuses the row")
        cluster.kill("first")
        connection.execute("DROP TABLE places")
        connection.execute(
            "CREATE TABLE places (word TEXT PRIMARY KEY, count INTEGER, home TEXT, work TEXT, mail TEXT)"
        )
        submit("second", columns)
        found = "SELECT word, home, work, mail FROM places"
        wait_until(lambda: connection.execute(found).fetchall() == [expected], 10, what="the row is there")
        assert cluster.errors("second") == []


UNALIGNED = {"topology.state.checkpoint.aligned": False}
IN_MEMORY: dict[str, Any] = {"topology.state.provider": None, "topology.state.provider.config": None}
LOST = "the states of topology.state.provider 'memory' do not survive their worker"


ALIGN = "topology.state.checkpoint.aligned to true"
PROVIDE = (
    "topology.state.provider to a durable provider, such as sqlite",
    'topology.state.provider.config to its options, such as {"directory": "/var/lib/states"}',
)


@pytest.mark.parametrize(
    ("changes", "fault", "needed"),
    [
        (UNALIGNED, "topology.state.checkpoint.aligned is false", ALIGN),
        (IN_MEMORY, LOST, " and ".join(PROVIDE)),
        (
            UNALIGNED | IN_MEMORY,
            f"topology.state.checkpoint.aligned is false and {LOST}",
            f"{ALIGN}, {PROVIDE[0]} and {PROVIDE[1]}",
        ),
    ],
)
def test_what_would_write_twice_or_never_is_refused_with_the_settings_that_are_missing(
    cluster: LocalCluster, tmp_path: Path, path: Path, changes: dict[str, Any], fault: str, needed: str
) -> None:
    cluster.submit("words", topology(path, ROWS), conf(tmp_path, **changes))
    with pytest.raises(TaskFailedError) as refused:
        cluster.wait_until(lambda: bool(counts(path)), 30)
    assert (
        f"component 'out' writes each row once with aligned checkpoints and durable states, and {fault}: set {needed}, "
        f"or use RowSinkBolt, which writes at least once"
    ) in str(refused.value)


@pytest.mark.long
def test_a_cluster_refuses_it_at_submission_unless_its_own_settings_have_what_is_missing(path: Path) -> None:
    aligned = {"topology.state.checkpoint.aligned": True}
    refusal = f"component 'out' writes each row once .*, and {LOST}: set topology.state.provider to"
    with DevCluster(conf={"topology.state.provider": "zookeeper"}) as durable:
        with pytest.raises(ConfigError, match=refusal):
            durable.client.submit("words", topology(path, ROWS), aligned | {"topology.state.provider": "memory"})
        durable.client.submit("words", topology(path, ROWS), aligned)
        wait_until(lambda: counts(path) == dict(ROWS), 60, what="every row is written")


def test_a_spout_without_positions_is_refused(path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", Words(ROWS))
    builder.set_bolt("out", ExactlyOnceSinkBolt(SqliteSink(path, "counts", COLUMNS, key="word"))).shuffle_grouping(
        "words"
    )
    with pytest.raises(TopologyError, match=r"bolt 'out': .* spout 'words' has none: give it checkpoint_state"):
        builder.create_topology()


@pytest.mark.parametrize("bolt", [ExactlyOnceSinkBolt, RowSinkBolt])
def test_a_column_that_the_input_does_not_have_is_refused(path: Path, bolt: type) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", PositionedWords(ROWS))
    sink = SqliteSink(path, "counts", {"wrd": "string", "count": "bigint"}, key="wrd")
    with pytest.raises(TopologyError) as refused:
        builder.set_bolt("out", bolt(sink)).shuffle_grouping("words")
    assert str(refused.value) == (
        "bolt 'out': needs field 'wrd' of every input, which stream 'default' of 'words' does not have (its fields: "
        "word, count)"
    )


def test_any_topology_writes_rows_at_least_once(cluster: LocalCluster, path: Path) -> None:
    rows = [*ROWS, ("bad", None), ("bad", 1.5)]
    cluster.submit("words", topology(path, rows, bolt=RowSinkBolt), {"topology.message.timeout.secs": 30})
    wait_until(lambda: counts(path) == {**dict(ROWS), "bad": None}, 30, what="every row is written")
    wait_until(lambda: cluster.errors("words"), 30, what="the error of the row that cannot be stored")
    assert "the value 1.5 of field 'count' cannot be stored as bigint" in str(cluster.errors("words")[0])


def test_a_row_that_the_table_refuses_fails_alone(cluster: LocalCluster, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER CHECK (count < 100))")
    cluster.submit("words", topology(path, [*ROWS, ("bad", 100), ("good", 99)], bolt=RowSinkBolt), {})
    wait_until(lambda: counts(path) == {**dict(ROWS), "good": 99}, 30, what="every other row is written")
    wait_until(lambda: cluster.errors("words"), 30, what="the error of the row that is refused")
    assert "CHECK constraint failed" in str(cluster.errors("words")[0])


class CountedSink(SqliteSink):
    """Counts its writes, of all tasks."""

    writes = Log()

    def write(self, rows: Any) -> None:
        self.writes.append(len(rows))
        super().write(rows)


def test_a_row_that_the_table_refuses_does_not_have_each_row_of_its_batch_written_alone(
    cluster: LocalCluster, path: Path
) -> None:
    rows = [(f"w{number}", 100 if number in (7, 300) else 1) for number in range(500)]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER CHECK (count < 100))")
    builder = TopologyBuilder()
    builder.set_spout("words", Words(rows))  # type: ignore[arg-type]
    bolt = RowSinkBolt(CountedSink(path, "counts", COLUMNS, key="word"))
    bolt.max_wait_s = 1.0
    builder.set_bolt("out", bolt).shuffle_grouping("words")
    CountedSink.writes.clear()
    cluster.submit("words", builder.create_topology())
    wait_until(lambda: len(counts(path)) == 498 and len(cluster.errors("words")) == 2, 30, what="all but two rows")
    assert len(CountedSink.writes) < 60


def test_what_is_wrong_with_the_table_is_reported_as_that_and_nothing_is_given_up(
    cluster: LocalCluster, path: Path
) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY)")
    cluster.submit("words", topology(path, ROWS, bolt=RowSinkBolt), {})
    wait_until(lambda: len(cluster.errors("words")) > len(ROWS), 30, what="the rows are tried again and again")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE counts ADD COLUMN count INTEGER")
    wait_until(lambda: counts(path) == dict(ROWS), 30, what="every row is written")
    assert {f"{type(error).__name__}: {error}" for _, error in cluster.errors("words")} == {
        "ReportedFailedException: table 'counts' exists and has no column 'count': add one of type INTEGER"
    }


def test_a_missing_directory_is_named_and_not_created(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "later" / "words.db"
    cluster.submit("words", topology(path, ROWS, bolt=RowSinkBolt), {})
    wait_until(lambda: cluster.errors("words"), 30, what="the error of the directory")
    text = f"SqliteSink: path is {path}, and there is no directory {path.parent}"
    assert str(cluster.errors("words")[0][1]) == text
    assert not path.parent.exists()
    path.parent.mkdir()
    wait_until(lambda: path.exists() and counts(path) == dict(ROWS), 30, what="every row is written")
