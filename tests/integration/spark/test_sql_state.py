"""What SqlState promises, on a real SQLite file and a real PostgreSQL, with results of a real Spark."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sql_places import PostgresTablesPlace, Run, SqliteTablesPlace, SqlPlace, counts, state

from tests.integration.transactional.database_servers import PostgresServer, running
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

pytestmark = pytest.mark.long

A = TransactionAttempt


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SqlPlace:
    if request.param == "sqlite":
        return SqliteTablesPlace(tmp_path)
    return PostgresTablesPlace(request.getfixturevalue("postgres_server"), f"test_{uuid.uuid4().hex[:12]}")


def test_what_batches_add_is_summed_and_rows_of_one_key_are_too(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add=["count"]))
    staged = run.stage(A(1, 1), [("a", 1), ("b", 2), ("a", 3), ("", None)])
    assert "counts" not in place.tables()
    run.sink.commit(A(1, 1), staged)
    assert counts(place) == {"a": 4, "b": 2, "": None}
    run.batch(2, 2, [("b", 5), ("c", 1), ("", 7), ("a", None)])
    run.batch(3, 3, [])
    assert counts(place) == {"a": 4, "b": 7, "c": 1, "": 7}
    assert place.execute("SELECT name, transactional_id, txid, attempt, format FROM tupletree_commits") == [
        ("counts", "words", 3, 3, 1)
    ]
    run.sink.close()
    assert place.tables() == {"counts", "tupletree_commits"}


def test_with_the_transactional_rule_a_transaction_counts_once(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add="count"))
    run.batch(1, 1, [("a", 1)])
    staged = run.stage(A(2, 2), [("a", 1)])
    for _ in range(2):
        run.sink.commit(A(2, 2), staged)  # the record of the first one was lost
    Run(spark, state(place, add="count")).batch(2, 9, [("a", 1)])
    assert counts(place) == {"a": 2}
    with pytest.raises(StaleAttemptError, match=r"table 'counts': transaction 1 .* transaction 2 has written it"):
        run.batch(1, 3, [("a", 1)])
    with pytest.raises(UsageError, match="table 'counts' belongs to pipeline 'words', and this is 'other'"):
        Run(spark, state(place, add="count"), name="other").batch(3, 3, [("a", 1)])
    assert counts(place) == {"a": 2}


def test_with_the_opaque_rule_a_differing_replay_takes_the_failed_attempt_back(
    spark: SparkSession, place: SqlPlace
) -> None:
    run = Run(spark, state(place, add="count"), is_opaque=True)
    run.batch(1, 1, [("a", 1), ("b", 1)])
    staged = run.stage(A(2, 2), [("a", 10), ("a", 10), ("new", 10)])
    for _ in range(2):
        run.sink.commit(A(2, 2), staged)
    assert counts(place) == {"a": 21, "b": 1, "new": 10}
    with pytest.raises(StaleAttemptError, match="is over, since transaction 2"):
        run.batch(2, 1, [("a", 100)])
    other = Run(spark, state(place, add="count"), is_opaque=True)
    other.batch(2, 3, [("b", 20), ("other", 5)])
    assert counts(place) == {"a": 1, "b": 21, "other": 5}
    other.batch(2, 4, [])
    assert counts(place) == {"a": 1, "b": 1}
    other.batch(3, 5, [("a", 1)])
    with pytest.raises(StaleAttemptError, match="transaction 3 has written it"):
        run.sink.commit(A(2, 2), staged)
    other.batch(4, 6, [("a", 1)])
    assert counts(place) == {"a": 3, "b": 1}
    assert set(place.execute("SELECT * FROM tupletree_undo_counts")) == {("a", 1, 2)}


def test_rules_may_change_between_transactions(spark: SparkSession, place: SqlPlace) -> None:
    Run(spark, state(place, add="count"), is_opaque=True).batch(1, 1, [("a", 1)])
    Run(spark, state(place, add="count")).batch(2, 2, [("a", 1)])
    assert "tupletree_undo_counts" not in place.tables()
    opaque = Run(spark, state(place, add="count"), is_opaque=True)
    with pytest.raises(UsageError, match="transaction 2 was written by an earlier attempt under the transactional"):
        opaque.batch(2, 3, [("a", 1)])
    opaque.batch(3, 4, [("a", 1)])
    assert counts(place) == {"a": 3}


ROLES = "word STRING, n INT, low DOUBLE, high DOUBLE, note STRING, status STRING, at TIMESTAMP"


def at(hour: int) -> datetime.datetime:
    return datetime.datetime(2024, 5, 1, hour, tzinfo=datetime.UTC)


def test_each_role_combines_in_its_own_way(spark: SparkSession, place: SqlPlace) -> None:
    roles = dict(add="n", min="low", max=["high"], replace=["note"], last={"status": "at"})
    run = Run(spark, state(place, **roles), is_opaque=True)
    run.batch(
        1,
        1,
        [
            ("a", 1, 3.0, 3.0, "x", "second", at(12)),
            ("a", 1, 2.0, 5.0, "y", "first", at(11)),
            ("b", None, None, None, None, "unknown", None),
        ],
        ROLES,
    )
    query = "SELECT word, n, low, high, note, status FROM counts ORDER BY word"
    first = [("a", 2, 2.0, 5.0, "y", "second"), ("b", None, None, None, None, "unknown")]
    assert place.execute(query) == first
    late = [
        ("a", 1, 9.0, 9.0, None, "late", at(10)),
        ("b", 1, 1.0, 1.0, "z", "known", at(1)),
        ("b", None, None, None, "z", "null at the end", None),
    ]
    run.batch(2, 2, late, ROLES)
    second = [("a", 3, 2.0, 9.0, None, "second"), ("b", 1, 1.0, 1.0, "z", "known")]
    assert place.execute(query) == second
    run.batch(2, 3, [], ROLES)
    assert place.execute(query) == first
    run.batch(2, 4, [*late, ("a", 0, None, None, "w", "same time", at(12))], ROLES)
    assert place.execute(query) == [("a", 3, 2.0, 9.0, "w", "same time"), second[1]]


TYPES = """i INT, l BIGINT, s SMALLINT, f FLOAT, d DOUBLE, c DECIMAL(20,2), t STRING, ts TIMESTAMP,
    tn TIMESTAMP_NTZ, da DATE, b BOOLEAN"""
VALUES = (
    *(2**31 - 1, -(2**63), -5, 0.5, 1e300, decimal.Decimal("123456789012345678.90"), 'a "quoted", text\nof\\two lines'),
    datetime.datetime(2024, 5, 1, 10, 0, 0, 250_000, tzinfo=datetime.UTC),
    *(datetime.datetime(2024, 5, 1, 10), datetime.date(1999, 12, 31), True),
)


@pytest.mark.parametrize("role", ["key", "replace", "min", "max"])
def test_every_type_is_stored_and_found_again(spark: SparkSession, place: SqlPlace, role: str) -> None:
    names = [column.split()[0] for column in " ".join(TYPES.split()).split(", ")]
    sink = state(place, names, add="n") if role == "key" else state(place, "k", add="n", **{role: names})
    run = Run(spark, sink, is_opaque=True)
    schema = f"k STRING, {TYPES}, n INT" if role != "key" else f"{TYPES}, n INT"
    row = (*VALUES, 1) if role == "key" else ("k", *VALUES, 1)
    for txid in (1, 2, 2):
        run.batch(txid, txid, [row, row], schema)
    shown = place.execute(f"SELECT {', '.join(names)}, n FROM counts")
    expected = {
        "sqlite": (
            *VALUES[:5],
            "123456789012345678.90",
            VALUES[6],
            *("2024-05-01 10:00:00.250000", "2024-05-01 10:00:00", "1999-12-31", 1),
        ),
        "postgres": VALUES,
    }[place.name]
    assert shown == [(*expected, 4)]


def test_decimals_are_added_and_compared_exactly(spark: SparkSession, place: SqlPlace) -> None:
    schema = "word STRING, a DECIMAL(20,2), low DECIMAL(20,10), s STRING, at DECIMAL(3,1)"
    run = Run(spark, state(place, add="a", min="low", last={"s": "at"}))
    exact = decimal.Decimal
    run.batch(1, 1, [("w", exact("999999999999999999.99"), exact("9"), "nine", exact("9"))], schema)
    run.batch(2, 2, [("w", exact("0.02"), exact("10"), "ten", exact("10.5"))], schema)
    run.batch(3, 3, [("w", None, exact("0.0000000001"), "one", exact("1"))], schema)
    [(a, low, s)] = place.execute("SELECT a, low, s FROM counts")
    assert (exact(a), exact(low), s) == (exact("1000000000000000000.01"), exact("0.0000000001"), "ten")


def test_text_is_compared_byte_by_byte_and_booleans_as_false_and_true(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, min="low", max=["high", "ever"]))
    for txid, text in enumerate(["b", "Z", "ä", "a"], 1):
        run.batch(txid, txid, [("w", text, text, txid == 2)] * 2, "word STRING, low STRING, high STRING, ever BOOLEAN")
    assert place.execute("SELECT low, high, ever FROM counts") == [("Z", "ä", True)]


def test_a_sum_that_is_too_large_is_a_mistake_and_nothing_is_written(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add="count"))
    run.batch(1, 1, [("a", 2**63 - 1), ("b", 1)])
    with pytest.raises(UsageError, match=r"counts.*(integer overflow|out of range)"):
        run.batch(2, 2, [("b", 1), ("a", 1)])
    assert counts(place) == {"a": 2**63 - 1, "b": 1}


def test_keys_alone_are_a_set(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, ["word", "n"]), is_opaque=True)
    schema = "n INT, word STRING"
    run.batch(1, 1, [(1, "a"), (1, "a")], schema)
    run.batch(2, 2, [(1, "a"), (2, "a")], schema)
    assert place.execute("SELECT word, n FROM counts ORDER BY n") == [("a", 1), ("a", 2)]
    run.batch(2, 3, [(1, "a")], schema)
    assert place.execute("SELECT word, n FROM counts ORDER BY n") == [("a", 1)]


def test_a_null_key_is_a_mistake_that_names_the_column(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add="count"))
    with pytest.raises(UsageError, match="table 'counts': column 'word' of the result is part of the key and NULL"):
        run.stage(A(1, 1), [("a", 1), (None, 1)])


def test_columns_that_do_not_fit_the_roles_are_mistakes_before_any_row_is_computed(
    spark: SparkSession, place: SqlPlace
) -> None:
    run = Run(spark, state(place, add="count"))
    broken = "raise_error('no row was to be computed')"
    for frame, message in [
        (spark.range(1).selectExpr(f"{broken} AS word"), "column 'count' is named in add but is not in the result"),
        (
            spark.range(1).selectExpr(f"{broken} AS word", "1 AS count", "2 AS extra"),
            "column 'extra' of the result has no role",
        ),
        (
            spark.range(1).selectExpr("'a' AS word", f"{broken} AS count"),
            "column 'count' is in add and of type void|of type void",
        ),
        (spark.range(1).selectExpr("'a' AS word", "'b' AS count"), "in add and of type string: a number was expected"),
    ]:
        with pytest.raises(UsageError, match=message):
            run.sink.stage(A(1, 1), frame)


def test_a_table_of_the_users_is_used_as_it_is(spark: SparkSession, place: SqlPlace) -> None:
    place.execute(
        'CREATE TABLE counts (id INTEGER, word VARCHAR(50) NOT NULL UNIQUE, "the count" INTEGER DEFAULT 7, note TEXT)'
    )
    place.execute("INSERT INTO counts VALUES (1, 'a', 40, 'mine')")
    run = Run(spark, state(place, add="the count"), is_opaque=True)
    schema = "word STRING, `the count` INT"
    run.batch(1, 1, [("a", 2), ("b", 1)], schema)
    rows = [(1, "a", 42, "mine"), (None, "b", 1, None)]
    assert place.execute("SELECT * FROM counts ORDER BY word") == rows
    run.batch(1, 2, [("a", 3)], schema)
    assert place.execute("SELECT * FROM counts ORDER BY word") == [(1, "a", 43, "mine")]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("word TEXT PRIMARY KEY", "has no column 'count': add one of type (INTEGER|bigint)"),
        ("word TEXT PRIMARY KEY, count TEXT", "'count' has type (?i:text), but the rows have values of type bigint"),
        (
            "word INTEGER PRIMARY KEY, count BIGINT",
            "'word' has type (?i:integer), but the rows have values of type string",
        ),
        ("word TEXT, count BIGINT", r"has no primary key or unique index on exactly \(word\)"),
        ("word TEXT, count BIGINT, PRIMARY KEY (word, count)", r"unique index on exactly \(word\)"),
        (
            "word TEXT PRIMARY KEY, count BIGINT, x TEXT NOT NULL",
            "column 'x' is NOT NULL without a default, and the rows have no such",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_a_mistake(spark: SparkSession, place: SqlPlace, table: str, message: str) -> None:
    place.execute(f"CREATE TABLE counts ({table})")
    with pytest.raises(UsageError, match=message):
        Run(spark, state(place, add="count")).stage(A(1, 1), [("a", 1)])


def test_a_new_column_needs_one_in_the_table_and_replays_still_take_back(spark: SparkSession, place: SqlPlace) -> None:
    Run(spark, state(place, add="count"), is_opaque=True).batch(1, 1, [("a", 1), ("b", 1)])
    run = Run(spark, state(place, add=["count", "bytes"]), is_opaque=True)
    schema = "word STRING, count INT, bytes INT"
    with pytest.raises(UsageError, match="table 'counts' exists and has no column 'bytes'"):
        run.stage(A(1, 2), [("a", 1, 1)], schema)
    place.execute("ALTER TABLE counts ADD COLUMN bytes BIGINT")
    run.batch(1, 3, [("a", 2, 2)], schema)
    run.batch(1, 4, [("a", 3, 3)], schema)
    assert place.execute("SELECT word, count, bytes FROM counts") == [("a", 3, 3)]


def test_two_drivers_at_once_make_each_transaction_count_once(spark: SparkSession, place: SqlPlace) -> None:
    first = Run(spark, state(place, add="count"), is_opaque=True)
    first.batch(1, 1, [("a", 1)])
    staged = first.stage(A(2, 2), [("a", 1)])
    second = Run(spark, state(place, add="count"), is_opaque=True)
    second.batch(2, 1 << 32, [("b", 1)])
    with pytest.raises(StaleAttemptError):
        first.sink.commit(A(2, 2), staged)
    assert counts(place) == {"a": 1, "b": 1}


def test_what_somebody_else_has_locked_is_unavailable_and_nothing_is_lost(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add="count", timeout_s=0.5))
    run.batch(1, 1, [("a", 1)])
    staged = run.stage(A(2, 2), [("a", 1)])
    release = place.hold("counts")
    try:
        with pytest.raises(UnavailableError, match=r"locked|lock timeout"):
            run.sink.commit(A(2, 2), staged)
    finally:
        release()
    assert counts(place) == {"a": 1}
    run.sink.commit(A(2, 2), staged)
    assert counts(place) == {"a": 2}


def test_a_table_written_by_a_newer_version_is_refused(spark: SparkSession, place: SqlPlace) -> None:
    run = Run(spark, state(place, add="count"))
    run.batch(1, 1, [("a", 1)])
    place.execute("UPDATE tupletree_commits SET format = 99")
    with pytest.raises(UsageError, match="has format 99"):
        run.batch(2, 2, [("a", 1)])
