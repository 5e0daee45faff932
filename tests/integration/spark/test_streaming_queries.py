"""Structured Streaming queries over exchange directories, without a cluster: what Spark makes of source and sink."""

from __future__ import annotations

from collections import Counter

import pytest
from exchanges import Feeding, files
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from tupletree.attempt import TransactionAttempt
from tupletree.spark.streaming import TupletreeDataSource
from tupletree.spark.streaming.assignment import next_metadata
from tupletree.spark.streaming.ddl import parse_schema
from tupletree.spark.streaming.directory import MICRO_BATCHES, PUBLISHED, TRANSACTIONS, About, ExchangeDirectory
from tupletree.spark.streaming.export import _TaskExport
from tupletree.spark.streaming.ingest import read_rows, remove

OUT = "word STRING, n BIGINT"
IN = "n BIGINT, text STRING"


@pytest.fixture(scope="module", autouse=True)
def registered(spark):
    spark.dataSource.register(TupletreeDataSource)


@pytest.fixture
def exported(tmp_path):
    """A directory to which two tasks have exported ten transactions of ten rows each."""
    about = About(TRANSACTIONS, "out", parse_schema(OUT).json())
    tasks = [_TaskExport(str(tmp_path / "out"), about, index, 2) for index in range(2)]
    for txid in range(1, 11):
        for index, task in enumerate(tasks):
            task.publish(TransactionAttempt(txid, txid), [[f"w{txid}", txid * 10 + n] for n in range(index, 10, 2)])
    return tmp_path / "out"


def run(spark, exported, target, checkpoint, **options):
    """One query that ends when it has read what is there."""
    frame = spark.readStream.format("tupletree").option("path", str(exported)).options(**options).load()
    changed = frame.select(f.upper("word").alias("text"), "n")
    writer = changed.writeStream.format("tupletree").option("path", str(target))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def fed(target):
    """The rows of all micro-batches that are published."""
    directory, metadata, found = ExchangeDirectory(target), None, []
    names = directory.listing(PUBLISHED)
    while (metadata := next_metadata(names, names, metadata, {}, 1)) is not None:
        [[query, number]] = metadata["batches"]
        for name in directory.read(f"{PUBLISHED}/{query}.{number}.json")["files"]:
            found += read_rows(directory, name, parse_schema(IN).json())
    return Counter(found)


EXPECTED = Counter((txid * 10 + n, f"W{txid}") for txid in range(1, 11) for n in range(10))


@pytest.mark.nightly
def test_a_query_reads_and_feeds_each_row_once_also_if_it_is_repeated(spark, exported, tmp_path):
    target, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    ExchangeDirectory(target).describe(About(MICRO_BATCHES, "in", parse_schema(IN).json()))
    first = run(spark, exported, target, checkpoint, maxBytesPerTrigger="8000")
    assert fed(target) == EXPECTED
    before = files(target)
    assert len([name for name in before if name.endswith(".json")]) > 1

    # As if it had been killed after its last micro-batch was published, and before it knew.
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for leftover in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        leftover.unlink(missing_ok=True)
    again = run(spark, exported, target, checkpoint)
    assert again.id == first.id and again.lastProgress is not None
    assert files(target) == before

    # And once more, now that the topology has taken everything.
    remove(ExchangeDirectory(target), {str(first.id): 1000})
    for leftover in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        leftover.unlink(missing_ok=True)
    run(spark, exported, target, checkpoint)
    assert files(target) == []


@pytest.mark.nightly
def test_a_query_that_prunes_reads_the_transaction_ids_and_deletes_what_it_has_read(spark, exported, tmp_path):
    frame = spark.readStream.format("tupletree").options(
        path=str(exported), txidColumn="t", prune="true", maxBytesPerTrigger="5000"
    )
    query = frame.load().writeStream.format("memory").queryName("pruned").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = [tuple(row) for row in spark.table("pruned").collect()]
    assert Counter(rows) == Counter((f"w{txid}", txid * 10 + n, txid) for txid in range(1, 11) for n in range(10))
    removed = ExchangeDirectory(exported).removed()["txid"]
    assert {int(name.split(".")[1]) for name in files(exported)} == set(range(removed + 1, 11))
    assert removed >= 5


@pytest.mark.nightly
def test_mistakes_are_told_in_a_sentence(spark, exported, tmp_path):
    source = spark.readStream.format("tupletree")
    with pytest.raises(
        PySparkException, match="exactly one option is needed: 'topology', the name of a topology, or 'path'"
    ):
        source.load()
    with pytest.raises(PySparkException, match=r"no topology has exported to .* yet: start the topology"):
        source.option("path", str(tmp_path / "nothing")).load()

    Feeding(tmp_path / "in", IN).feed(0, [[1, "x"]])
    ExchangeDirectory(tmp_path / "in").describe(About(MICRO_BATCHES, "in", parse_schema("n BIGINT").json()))
    with pytest.raises(PySparkException, match="the topology ingests the columns n; the query has text, n"):
        run(spark, exported, tmp_path / "in", tmp_path / "checkpoint")
