"""ParquetDirectory and JsonDirectory with a real Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from sink_behaviours import Pipe, SinkBehaviours
from small_disk import remount, small_disk

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sink import Sink
from tupletree.spark.sinks.directory import JsonDirectory, ParquetDirectory

pytestmark = pytest.mark.long


class DirectoryPlace:
    """A directory under test."""

    def __init__(self, path: Path, kind: type[ParquetDirectory] | type[JsonDirectory]) -> None:
        self.path = path
        self.kind = kind

    def sink(self) -> Sink:
        return self.kind(self.path)

    def totals(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for file in self.path.glob("txid=*/part-*"):
            if self.kind is ParquetDirectory:
                rows = pq.ParquetFile(file).read().to_pylist()
            else:
                rows = [json.loads(line) for line in file.read_text().splitlines()]
            for row in rows:
                found[row["word"]] += row["n"]
        return dict(found)

    def staged(self) -> list[str]:
        return [path.name for path in (self.path / "_staging").iterdir()]

    def wrong_columns(self) -> tuple[str, str]:
        return "word STRING, TxId BIGINT", "TxId"


@pytest.fixture(params=[ParquetDirectory, JsonDirectory])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryPlace:
    return DirectoryPlace(tmp_path / "a place%20[of] its own", request.param)


class TestDirectories(SinkBehaviours):
    """The behaviours, and what only directories have."""

    def test_spark_reads_what_is_committed_with_its_txid(self, spark: SparkSession, tmp_path: Path) -> None:
        for kind in ParquetDirectory, JsonDirectory:
            place = DirectoryPlace(tmp_path / kind.__name__, kind)
            pipe = Pipe(spark, place, is_opaque=True)
            read = spark.read.format(kind.kind).schema("word STRING, n BIGINT, txid BIGINT").load
            pipe.run(1, 1, {})
            assert read(str(place.path)).collect() == []
            pipe.run(2, 2, {"old": 1})
            pipe.run(2, 3, {"a": 1, "b": 2})
            pipe.run(3, 4, {"a": 3})
            pipe.stage(4, 5, {"staged": 1})
            for frame in read(str(place.path)), spark.read.format(kind.kind).load(str(place.path)):
                assert sorted(map(tuple, frame.select("word", "n", "txid").collect())) == [
                    ("a", 1, 2),
                    ("a", 3, 3),
                    ("b", 2, 2),
                ]

    def test_columns_that_differ_in_case_only_are_refused(self, spark: SparkSession, place: DirectoryPlace) -> None:
        pipe = Pipe(spark, place, is_opaque=False)
        with pytest.raises(UsageError, match="column 'n' twice"):
            pipe.sink.stage(TransactionAttempt(1, 1), spark.createDataFrame([(1, 2)], ["n", "N"]))


@pytest.mark.parametrize("kind", [ParquetDirectory, JsonDirectory])
def test_files_are_compressed_as_told(
    spark: SparkSession, tmp_path: Path, kind: type[ParquetDirectory] | type[JsonDirectory]
) -> None:
    for compression in kind.compressions:
        path = tmp_path / compression
        place = DirectoryPlace(path, kind)
        place.sink = lambda: kind(path, compression=compression)  # type: ignore[method-assign]  # noqa: B023
        Pipe(spark, place, is_opaque=False).run(1, 1, {"a": 1})
        assert [tuple(row) for row in spark.read.format(kind.kind).load(str(path)).collect()] in (
            [("a", 1, 1)],
            [(1, "a", 1)],
        )


@pytest.mark.parametrize("kind", [ParquetDirectory, JsonDirectory])
def test_a_full_disk_is_unavailable_and_leaves_what_was_there(
    spark: SparkSession, tmp_path: Path, kind: type[ParquetDirectory] | type[JsonDirectory]
) -> None:
    with small_disk(tmp_path / "small") as disk:
        place = DirectoryPlace(disk / "place", kind)
        pipe = Pipe(spark, place, is_opaque=False)
        pipe.run(1, 1, {"a": 1})
        large = spark.range(50_000).selectExpr("uuid() AS word", "id AS n")
        with pytest.raises(UnavailableError, match="No space left on device"):
            pipe.sink.stage(TransactionAttempt(2, 2), large)
        assert place.totals() == {"a": 1}

        # Tasks that Spark has given up may hold their files open, and so the disk full.
        remount(disk, "size=64m")
        pipe.run(2, 3, {"a": 1})
        assert (place.totals(), place.staged()) == ({"a": 2}, [])
