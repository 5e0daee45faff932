"""Directories of files in topologies of this process, read by other programs, on disks that are full or not there."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from small_disk import remount, small_disk

from tupletree import Topology, TopologyBuilder, spout
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.csv_format import Csv
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.file_sinks import DirectorySink, FileSink, ParquetSink
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Json, Text
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.parquet import ParquetLog
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.errors import TaskFailedError, UnavailableError, UsageError
from tupletree.testing import LocalCluster, wait_until
from tupletree.transactional import MemoryTransactionalSpout, SinkCommitter, TransactionalTopologyBuilder

COLUMNS = {"word": "string", "count": "bigint"}
ROWS = [(f"w{number}", number) for number in range(200)]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def topology(bolt: Any, rows: list[tuple[Any, ...]] = ROWS) -> Topology:
    @spout(outputs=["word", "count"])
    def words() -> Iterator[list[Any]]:
        yield from map(list, rows)

    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("out", bolt, 2).shuffle_grouping("words")
    return builder.create_topology()


def files(path: Path) -> list[Path]:
    return sorted(path.glob("[!_]*"))


def lines(path: Path) -> list[tuple[Any, ...]]:
    """The rows of JSON lines, sorted."""
    return sorted(tuple(json.loads(line).values()) for file in files(path) for line in file.read_text().splitlines())


def table(path: Path) -> list[tuple[Any, ...]]:
    """The rows of Parquet files, as PyArrow reads the directory, sorted."""
    return sorted(tuple(row.values()) for row in pq.read_table(path).to_pylist()) if files(path) else []


def read(log: LogSource) -> list[Any]:
    """The messages of a log."""
    log.open()
    found = ((name, log.bounds(name)) for name in log.partitions())
    return [record.data for name, (start, end) in found for some in log.read(name, start, end) for record in some]


def test_a_bolt_writes_files_of_bounded_size_at_least_once(cluster: LocalCluster, tmp_path: Path) -> None:
    sink = FileSink(tmp_path, Json(["word", "count"]), max_rows=30, max_age_s=0.2)
    cluster.submit("words", topology(RowSinkBolt(sink)))
    wait_until(lambda: lines(tmp_path) == sorted(ROWS), 30, what="every row is in a file")
    sizes = [len(file.read_text().splitlines()) for file in files(tmp_path)]
    assert max(sizes) <= 30


def test_files_that_take_longer_than_tuples_may_are_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    sink = FileSink(tmp_path, Json(["word", "count"]), max_age_s=30)
    cluster.submit("words", topology(RowSinkBolt(sink)), {"topology.message.timeout.secs": 30})
    with pytest.raises(TaskFailedError, match="component 'out' gathers rows for up to 30 seconds, and tuples time out"):
        cluster.wait_until(lambda: bool(lines(tmp_path)), 30)


def test_each_row_is_in_one_file_after_its_checkpoint(cluster: LocalCluster, tmp_path: Path) -> None:
    conf = {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 100,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    cluster.submit("words", topology(ExactlyOnceSinkBolt(ParquetSink(tmp_path / "out", COLUMNS))), conf)
    wait_until(lambda: table(tmp_path / "out") == sorted(ROWS), 30, what="every row is in a file")


def test_batches_of_a_transactional_topology_are_files(cluster: LocalCluster, tmp_path: Path) -> None:
    source = MemoryTransactionalSpout({0: [list(row) for row in ROWS]}, list(COLUMNS), 50)
    builder = TransactionalTopologyBuilder("words", "words", source)
    builder.set_bolt("out", SinkCommitter(ParquetSink(tmp_path, COLUMNS), "words")).global_grouping("words")
    cluster.submit("words", builder.create_topology())
    wait_until(lambda: table(tmp_path) == sorted(ROWS), 60, what="every row is in a file")
    assert [pq.read_metadata(file).num_rows for file in files(tmp_path)] == [50] * 4


def test_the_own_spouts_read_what_the_sinks_write(tmp_path: Path) -> None:
    odd = [('ä,"b"', 1), ("", 2), (" c ", 3)]
    for name, format in ("json", Json(["word", "count"])), ("csv", Csv({"word": str, "count": int})):
        path, has_header = tmp_path / name, name == "csv"
        FileSink(path, format, header=has_header).write(odd)
        spout = FileSpout(path, format, header=has_header)
        assert [tuple(format.decode(line)) for line in read(spout.source)] == odd
    ParquetSink(tmp_path / "parquet", COLUMNS).write([*odd, ("none", None)])
    assert read(ParquetLog(tmp_path / "parquet", list(COLUMNS))) == [*odd, ("none", None)]


class Order(NamedTuple):
    number: int
    skus: list[str]
    raw: bytes | None


def test_columns_of_parquet_may_be_a_record_with_lists(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "orders", Order)
    rows = [Order(1, ["a", "b"], b"\xff"), Order(2, [], None)]
    sink.write(rows)
    assert [Order(**row) for file in files(tmp_path / "orders") for row in pq.read_table(file).to_pylist()] == rows
    [fault] = sink.faults([Order(3, [], None), (4, ["a", 5], None)]).values()
    assert "of field 'skus' cannot be stored as list<item: string>: an item is of type int" in str(fault)


def test_while_the_directory_is_missing_tuples_are_replayed(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "mount" / "out"
    sink = FileSink(path, Json(["word", "count"]), max_age_s=0.05)
    cluster.submit("words", topology(RowSinkBolt(sink)))
    wait_until(lambda: cluster.errors("words"), 30, what="an error is reported")
    assert f"{path}: No such file or directory" in str(cluster.errors("words")[0])
    path.parent.mkdir()
    wait_until(lambda: set(lines(path)) == set(ROWS), 60, what="every row is in a file")


@pytest.mark.parametrize(
    "sink_of", [lambda path: FileSink(path, Text("word")), lambda path: ParquetSink(path, {"word": "string"})]
)
def test_a_disk_that_is_full_or_read_only_is_unavailable_and_loses_nothing(tmp_path: Path, sink_of: Any) -> None:
    with small_disk(tmp_path / "disk") as disk:
        sink: DirectorySink = sink_of(disk / "out")
        sink.open("words/out/0")
        sink.commit(TransactionAttempt(1, 1), [("a",)])
        before = files(disk / "out")
        large = [(text,) for text in random.Random(1).randbytes(1_000_000).hex().split("00")]
        for write in lambda: sink.commit(TransactionAttempt(2, 1), large), lambda: sink.write(large):
            with pytest.raises(UnavailableError, match="No space left on device"):
                write()
            assert files(disk / "out") == before
        sink.write([("b",)])  # what failed has left no room taken
        remount(disk, "ro")
        for write in lambda: sink.commit(TransactionAttempt(2, 1), [("c",)]), lambda: sink.write([("c",)]):
            with pytest.raises(UnavailableError, match="Read-only file system"):
                write()
        remount(disk, "rw,size=64m")
        sink.commit(TransactionAttempt(2, 1), large)
        assert len(files(disk / "out")) == 3


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("two\nlines", 1), "contains a line end; one line was expected"),
        (("\ud800", 1), "surrogates not allowed"),
        (("a",), "a row has 2 values, those of word, count"),
    ],
)
def test_a_row_that_is_no_line_is_refused(tmp_path: Path, row: tuple[Any, ...], reason: str) -> None:
    sink = FileSink(tmp_path, Csv(["word", "count"]))
    assert {index: reason in str(fault) for index, fault in sink.faults([("a", 1), row]).items()} == {1: True}
    with contextlib.suppress(UsageError):
        sink.write([("a", 1), row])
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FileSink("", Json()), "FileSink: path is ''; the path of a directory was expected"),
        (lambda: FileSink("x", Json), "FileSink: format is the class Json"),
        (lambda: FileSink("x", Json(), header=True), "only Csv has lines with the names"),
        (lambda: FileSink("x", Json(), max_rows=0), "FileSink: max_rows is 0; a whole number of at least 1"),
        (lambda: ParquetSink("x", {}), "ParquetSink: columns is {}; a dict from each field to its type"),
        (lambda: ParquetSink("x", {"a": "text"}), r"ParquetSink: columns\['a'\] is 'text'; one of tinyint"),
        (lambda: ParquetSink("x", COLUMNS, compression="zip"), "ParquetSink: compression is 'zip'; one of none"),
    ],
)
def test_a_wrong_argument_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason.replace("(", r"\(")):
        make()
