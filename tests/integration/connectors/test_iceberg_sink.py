"""IcebergSink with a catalog in SQLite and a local directory: tables that exist already, notes that last, kills."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from killed_lives import kill_lives
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from sink_places import IcebergPlace

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.iceberg import IcebergSink
from tupletree.errors import UnavailableError, UsageError

COLUMNS = {"word": "string", "count": "bigint"}
TABLE = "shop.words.counts"
SCHEMA = Schema(
    NestedField(1, "more", StringType()), NestedField(2, "count", LongType()), NestedField(3, "word", StringType())
)


@pytest.fixture
def place(tmp_path: Path) -> IcebergPlace:
    return IcebergPlace(tmp_path)


@pytest.fixture
def catalog(place: IcebergPlace) -> Catalog:
    made = load_catalog(**place.catalog)
    made.create_namespace_if_not_exists("shop.words")
    return made


def commit(sink: IcebergSink, txid: int, *rows: tuple[object, ...]) -> None:
    sink.open("words/count/0")
    sink.commit(TransactionAttempt(txid, 1), rows)


def rows(catalog: Catalog) -> list[tuple[object, ...]]:
    table = catalog.load_table(TABLE).scan(selected_fields=("word", "count")).to_arrow().select(["word", "count"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_table_that_exists_keeps_its_partitions_and_its_further_columns(
    place: IcebergPlace, catalog: Catalog
) -> None:
    by_word = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "word"))
    catalog.create_table(TABLE, SCHEMA, partition_spec=by_word)
    commit(IcebergSink(place.catalog, TABLE, COLUMNS), 1, ("a", 1), ("b", 2))
    table = catalog.load_table(TABLE)
    assert rows(catalog) == [("a", 1), ("b", 2)]
    assert len(list(table.scan().plan_files())) == 2
    assert table.scan().to_arrow()["more"].null_count == 2
    assert "commit.retry.num-retries" not in table.properties


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": "string", "sum": "bigint"}, " has no column 'sum': add it"),
        ({"word": "string", "count": "string"}, ": column 'count' is of type long, and string was expected"),
    ],
)
def test_a_table_whose_columns_do_not_fit_is_refused(
    place: IcebergPlace, catalog: Catalog, columns: dict[str, str], message: str
) -> None:
    catalog.create_table(TABLE, SCHEMA)
    sink = IcebergSink(place.catalog, TABLE, columns)
    with pytest.raises(UsageError, match=f"Iceberg table '{TABLE}'{message}"):
        commit(sink, 1, ("a", "1" if columns.get("count") else 1))
    with pytest.raises(UsageError, match=f"Iceberg table '{TABLE}'{message}"):
        sink.write([])
    assert rows(catalog) == []


def test_a_note_outlives_the_snapshot_of_its_rows(place: IcebergPlace, catalog: Catalog) -> None:
    first, other = IcebergSink(place.catalog, TABLE, COLUMNS), IcebergSink(place.catalog, TABLE, COLUMNS)
    commit(first, 7, ("first", 7))
    other.open("words/count/1")
    for txid in (1, 2):
        other.commit(TransactionAttempt(txid, 1), [("other", txid)])
    catalog.load_table(TABLE).maintenance.expire_snapshots().older_than(dt.datetime.now()).commit()
    assert len(catalog.load_table(TABLE).snapshots()) == 1
    for sink in (first, IcebergSink(place.catalog, TABLE, COLUMNS)):
        commit(sink, 7, ("first", 8))
    commit(first, 8, ("first", 9))
    assert rows(catalog) == [("first", 7), ("first", 9), ("other", 1), ("other", 2)]


def test_lists_structs_and_times_are_stored(place: IcebergPlace, catalog: Catalog) -> None:
    lines = pa.list_(pa.struct({"sku": pa.string(), "n": pa.int32()}))
    sink = IcebergSink(place.catalog, TABLE, pa.schema({"at": pa.timestamp("us", "UTC"), "lines": lines}))
    at = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    commit(sink, 1, (at, [{"sku": "a", "n": 2}, {}]), (None, []))
    found = catalog.load_table(TABLE).scan().to_arrow().to_pylist()
    assert found == [{"at": at, "lines": [{"sku": "a", "n": 2}, {"sku": None, "n": None}]}, {"at": None, "lines": []}]
    assert "the column takes no NULL" in str(sink.faults([(at, None)])[0])


def test_a_column_that_takes_no_null_needs_one_of_the_sink_that_takes_none(
    place: IcebergPlace, catalog: Catalog
) -> None:
    catalog.create_table(TABLE, Schema(NestedField(1, "word", StringType(), required=True)))
    with pytest.raises(UsageError, match="column 'word' takes no NULL, and a column of the sink that takes none"):
        IcebergSink(place.catalog, TABLE, {"word": "string"}).write([])
    columns = pa.schema([pa.field("word", pa.string(), nullable=False)])
    commit(IcebergSink(place.catalog, TABLE, columns), 1, ("a",))
    assert catalog.load_table(TABLE).scan().to_arrow()["word"].to_pylist() == ["a"]


def test_a_catalog_that_is_away_is_waited_for_by_the_caller_and_an_unknown_one_is_an_error_of_the_user() -> None:
    with pytest.raises(UnavailableError, match=r"^Iceberg table 'a\.b': HTTPConnectionPool"):
        commit(IcebergSink({"type": "rest", "uri": "http://127.0.0.1:1"}, "a.b", COLUMNS), 1, ("a", 1))
    with pytest.raises(UsageError, match=r"^Iceberg table 'a\.b': URI missing"):
        commit(IcebergSink("nowhere", "a.b", COLUMNS), 1, ("a", 1))


@pytest.mark.nightly
def test_lives_that_are_killed_write_each_transaction_once(place: IcebergPlace, catalog: Catalog) -> None:
    sinks = [IcebergSink(place.catalog, TABLE, COLUMNS, timeout_s=60) for _ in range(2)]
    expected = kill_lives(sinks, transactions=8, kills=2)
    assert rows(catalog) == sorted(expected)
