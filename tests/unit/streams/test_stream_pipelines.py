"""A program reads what a pipeline has committed, and writes what a pipeline reads; without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.log_source import Bounds, DeletedError
from tupletree.connectors.pipeline_log import PARTITION, ROWS, PipelineLog
from tupletree.errors import FailedException, TopologyError, UsageError
from tupletree.spark import JsonDirectory, MemorySource, ParquetDirectory, Pipeline
from tupletree.spark.sinks.directory_batches import BatchDirectories
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster


class Result(NamedTuple):
    word: str
    n: int


class Results(Pipeline):
    """A pipeline whose batches the tests commit themselves."""

    source = MemorySource([[["a", 1]]], "word STRING, n BIGINT", 1)

    def __init__(self, directory: Path) -> None:
        self.state = ParquetDirectory(directory)


class Directory:
    """The directory of a pipeline's results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._batches = BatchDirectories(str(path), "parquet")
        self._batches.open("results")

    def commit(self, txid: int, *files: list[tuple[str, int]], attempt: int = 1, is_opaque: bool = False) -> None:
        """Commit a batch with these rows in its files."""
        which = TransactionAttempt(txid, attempt)
        folder = Path(self._batches.begin(which))
        folder.mkdir()
        for number, rows in enumerate(files):
            columns = {"n": [n for _, n in rows], "word": [word for word, _ in rows]}
            pq.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=2)
        self._batches.seal(which, {})
        self._batches.commit(which, is_opaque)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "results")


def read(log: PipelineLog, start: int) -> list[Any]:
    """Return all messages from a position on, as (data, txid), range after range, and check their positions."""
    found = []
    end = log.bounds(PARTITION).end
    while start < end:
        until = log.limited(PARTITION, start, end, 1)
        assert start < until <= end
        for records in log.read(PARTITION, start, until):
            for record in records:
                assert start <= record.position < record.next <= until
                found.append((record.data, *record.metadata))
        start = until
    return found


def test_rows_come_in_the_order_of_transactions_and_from_any_position(directory: Directory) -> None:
    directory.commit(1, [("a", 1), ("b", 2), ("c", 3)], [], [("d", 4)])
    directory.commit(2, [])
    directory.commit(3, [("e", 5)])
    log = PipelineLog(directory.path, ["word", "n"])
    log.open()
    expected = [(("a", 1), 1), (("b", 2), 1), (("c", 3), 1), (("d", 4), 1), (("e", 5), 3)]
    assert read(log, ROWS) == expected
    for count in range(5):
        assert read(log, ROWS + count) == expected[count:]
    assert read(log, 2 * ROWS) == read(log, 3 * ROWS) == expected[4:]
    assert read(log, 4 * ROWS) == []
    assert log.place(PARTITION, 3 * ROWS + 1_000) == f"{directory.path}: row 1,000 of transaction 3"


def test_the_newest_batch_of_an_opaque_pipeline_waits(directory: Directory) -> None:
    log = PipelineLog(directory.path, ["word", "n"], is_opaque=True)
    assert log.bounds(PARTITION) == Bounds(ROWS, ROWS)
    directory.commit(1, [("a", 1)], is_opaque=True)
    assert read(log, ROWS) == []
    directory.commit(1, [("b", 2)], attempt=2, is_opaque=True)
    directory.commit(2, [("c", 3)], is_opaque=True)
    assert read(log, ROWS) == [(("b", 2), 1)]


def test_batches_that_are_gone_are_told_and_those_that_follow_are_read(directory: Directory) -> None:
    for txid in range(1, 5):
        directory.commit(txid, [("a", txid)])
    log = PipelineLog(directory.path, ["n"])
    for txid in (1, 2):
        shutil.rmtree(directory.path / f"txid={txid:020}")
    assert log.bounds(PARTITION) == Bounds(3 * ROWS, 5 * ROWS)
    with pytest.raises(DeletedError, match="transaction 1 was deleted unread") as caught:
        read(log, ROWS)
    assert read(log, caught.value.first) == [((3,), 3), ((4,), 4)]
    with pytest.raises(
        FailedException, match=r"row 0 of transaction 9 is to be read next, but the directory ends with .* 4"
    ):
        log.limited(PARTITION, 9 * ROWS, 5 * ROWS, 1)


def test_a_batch_that_is_deleted_while_it_is_read_is_told_and_those_that_follow_are_read(directory: Directory) -> None:
    directory.commit(1, [("a", 1)], [("b", 2)])
    log = PipelineLog(directory.path, ["n"])
    assert len(read(log, ROWS)) == 2
    shutil.rmtree(directory.path / f"txid={1:020}")
    with pytest.raises(FailedException, match=r"transaction 1 of .* cannot be read: .*No such file"):
        list(log.read(PARTITION, ROWS + 1, 2 * ROWS))
    directory.commit(2, [("c", 3)])
    with pytest.raises(DeletedError, match="transaction 1 was deleted unread") as caught:
        list(log.read(PARTITION, ROWS + 1, 2 * ROWS))
    assert read(log, caught.value.first) == [((3,), 2)]


def test_the_end_of_an_opaque_log_stays_when_old_batches_are_deleted_or_the_newest_is_replaced(
    directory: Directory,
) -> None:
    for txid in range(1, 5):
        directory.commit(txid, [("a", txid)], is_opaque=True)
    log = PipelineLog(directory.path, ["n"], is_opaque=True)
    assert log.bounds(PARTITION) == Bounds(ROWS, 4 * ROWS)
    newest = directory.path / f"txid={4:020}"
    newest.rename(directory.path / "_replaced")
    assert log.bounds(PARTITION) == Bounds(ROWS, 4 * ROWS)
    (directory.path / "_replaced").rename(newest)
    for txid in (1, 2, 3):
        shutil.rmtree(directory.path / f"txid={txid:020}")
    for one in (log, PipelineLog(directory.path, ["n"], is_opaque=True)):
        assert one.bounds(PARTITION) == Bounds(4 * ROWS, 4 * ROWS)
    directory.commit(5, [("a", 5)], is_opaque=True)
    assert read(log, 4 * ROWS) == [((4,), 4)]


def test_a_file_without_a_column_is_told(directory: Directory) -> None:
    directory.commit(1, [("a", 1)])
    with pytest.raises(FailedException, match="has no column 'm'; it has n, word"):
        read(PipelineLog(directory.path, ["m"]), ROWS)


def test_a_program_reads_what_is_there_and_what_comes(directory: Directory) -> None:
    directory.commit(1, [("a", 1), ("b", 2)])
    builder = StreamBuilder()
    results = builder.from_pipeline(Results(directory.path), rows=Result)
    words = results.map(lambda result: result.word)
    seen: list[Any] = []
    with LocalCluster() as cluster:
        words.key_by(lambda word: word).count(name="count", combine=False)
        cluster.submit("t", builder.topology(), observer=lambda component, stream, row: seen.append((component, row)))
        cluster.wait_until(lambda: len([row for component, row in seen if component == "pipeline"]) == 2, timeout=20)
        directory.commit(2, [("c", 3)])
        cluster.wait_until(lambda: [row[0] for at, row in seen if at == "pipeline"] == ["a", "b", "c"], timeout=20)


def test_columns_are_those_of_the_outputs(directory: Directory) -> None:
    directory.commit(1, [("a", 1)])
    pipeline = Results(directory.path)
    pipeline.outputs = ["n", "word"]
    [row] = StreamBuilder().from_pipeline(pipeline, name="results").collect(1)
    assert (row.n, row.word) == (1, "a")


def test_a_pipeline_without_a_directory_or_columns_is_refused(tmp_path: Path) -> None:
    builder, pipeline = StreamBuilder(), Results(tmp_path)
    with pytest.raises(UsageError, match=r"Results has no outputs, which would name the columns: write from_pipeline"):
        builder.from_pipeline(pipeline)
    with pytest.raises(UsageError, match="rows is <class 'str'>; a NamedTuple or dataclass was expected"):
        builder.from_pipeline(pipeline, rows=str)
    pipeline.state = JsonDirectory(tmp_path)
    with pytest.raises(UsageError, match="Results has 0 sinks of class ParquetDirectory; one was expected"):
        builder.from_pipeline(pipeline, rows=Result)
    with pytest.raises(TopologyError, match="an object of a subclass of Pipeline was expected, not the class Results"):
        builder.from_pipeline(Results, rows=Result)  # type: ignore[arg-type]


def rows_of(path: Path) -> list[Any]:
    return sorted(tuple(row.values()) for row in pq.read_table(path).to_pylist())


def test_elements_of_a_record_are_rows_of_its_fields(tmp_path: Path) -> None:
    stream = StreamBuilder().source([Result("a", 1), Result("b", 2)])
    stream.to_dataframe_sink(tmp_path / "all")
    stream.to_dataframe_sink(tmp_path / "some", {"n": "int"}, name="some")
    stream.key_by(lambda result: len(result.word)).to_dataframe_sink(tmp_path / "keyed", name="keyed")
    stream.builder.run_local()
    assert pq.read_table(tmp_path / "all").schema.types == [pa.string(), pa.int64()]
    assert rows_of(tmp_path / "all") == rows_of(tmp_path / "keyed") == [("a", 1), ("b", 2)]
    assert pq.read_table(tmp_path / "some").schema.types == [pa.int32()]
    assert rows_of(tmp_path / "some") == [(1,), (2,)]


def test_a_table_has_the_key_as_its_first_column(tmp_path: Path) -> None:
    counts = StreamBuilder().source(["a", "b", "a"]).key_by(lambda word: word).count()
    counts.to_dataframe_sink(tmp_path, {"word": "string", "times": "bigint"})
    counts.builder.run_local()
    assert rows_of(tmp_path) == [("a", 2), ("b", 1)]


def test_elements_without_a_record_need_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="to_dataframe_sink: the record of the elements is not known: name the col"):
        StreamBuilder().source(["a", "b"]).to_dataframe_sink(tmp_path)
