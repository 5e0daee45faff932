"""What is PostgreSQL's own in SqlState: staging tables, written by Spark's tasks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sql_places import PostgresTablesPlace, Run, counts, state

from tests.integration.transactional.database_servers import PostgresServer, running
from tupletree._sinks.sql_plan import Roles
from tupletree._stores.postgres import PostgresAddress
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sinks.postgres_writer import REPORT, Writer

A = TransactionAttempt


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture
def place(postgres_server: PostgresServer) -> PostgresTablesPlace:
    return PostgresTablesPlace(postgres_server, f"test_{uuid.uuid4().hex[:12]}")


def staging_tables(place: PostgresTablesPlace) -> list[str]:
    return sorted(name for name in place.tables() if name.startswith("tupletree_stage_"))


def test_every_partition_writes_its_rows_and_they_are_combined(spark: SparkSession, place: PostgresTablesPlace) -> None:
    run = Run(spark, state(place, add="count"))
    frame = spark.range(0, 1000, 1, 3).selectExpr("cast(id % 7 AS STRING) AS word", "id AS count")
    staged = run.sink.stage(A(1, 1), frame)
    assert len({task for _, task in staged.winners}) == 3
    run.sink.commit(A(1, 1), staged)
    assert counts(place) == {str(word): sum(range(word, 1000, 7)) for word in range(7)}
    assert staging_tables(place) == []


def test_columns_may_have_any_names(spark: SparkSession, place: PostgresTablesPlace) -> None:
    run = Run(spark, state(place, "the.word", add=['a `b` % "c"', "ü.n"]))
    row = spark.range(0, 3, 1, 2).selectExpr("1L AS `ü.n`", "'x' AS `the.word`", 'id AS `a ``b`` % "c"`')
    run.sink.commit(A(1, 1), run.sink.stage(A(1, 1), row))
    assert place.execute("SELECT * FROM counts") == [("x", 3, 3)]


def test_rows_of_task_attempts_that_the_job_did_not_return_do_not_count(
    spark: SparkSession, place: PostgresTablesPlace
) -> None:
    run = Run(spark, state(place, add="count"), is_opaque=True)
    staged = run.stage(A(1, 1), [("a", 1), ("b", 2)])
    [(partition, task)] = staged.winners
    lost = f"SELECT {partition}, {task + 1}, tupletree_row, word || '?', count FROM {staged.staging}"
    place.execute(f"INSERT INTO {staged.staging} {lost}")
    place.execute(f"INSERT INTO {staged.staging} SELECT {partition}, {task + 1}, 0, 'a', 100")
    run.sink.commit(A(1, 1), staged)
    assert counts(place) == {"a": 1, "b": 2}


def test_a_task_that_was_given_up_and_still_writes_delays_no_commit(
    spark: SparkSession, place: PostgresTablesPlace
) -> None:
    run = Run(spark, state(place, add="count"))
    staged = run.stage(A(1, 1), [("a", 1)])
    with psycopg.connect(place.url) as zombie:
        zombie.execute(f"INSERT INTO {staged.staging} VALUES (0, -1, 0, 'a', 100)".encode())
        run.sink.commit(A(1, 1), staged)
        assert counts(place) == {"a": 1}
        assert staging_tables(place) == [staged.staging]
    run.batch(2, 2, [("a", 1)])
    assert staging_tables(place) == []


def test_what_a_dead_driver_has_staged_goes_and_what_is_another_pipelines_stays(
    spark: SparkSession, place: PostgresTablesPlace
) -> None:
    other = Run(spark, state(place, add="count"), name="other").stage(A(1, 1), [("a", 1)])
    dead = Run(spark, state(place, add="count"))
    staged = dead.stage(A(1, 1), [("a", 1)])
    assert staging_tables(place) == sorted([other.staging, staged.staging])
    alive = Run(spark, state(place, add="count"))
    assert staging_tables(place) == [other.staging]
    with pytest.raises(UnavailableError, match=r"0 of 1 staged rows are left: .* another driver of this pipeline"):
        dead.sink.commit(A(1, 1), staged)
    alive.stage(A(1, 2), [("a", 1)])
    alive.sink.discard(A(1, 2), None)
    assert staging_tables(place) == [other.staging]


def test_a_crash_of_the_server_between_stage_and_commit_is_noticed(
    spark: SparkSession, place: PostgresTablesPlace
) -> None:
    run = Run(spark, state(place, add="count"))
    run.batch(1, 1, [("a", 1)])
    staged = run.stage(A(2, 2), [("a", 1), ("b", 1)])
    place.server.stop()
    try:
        with pytest.raises(UnavailableError, match=r"PostgreSQL at .*, database 'postgres': "):
            run.sink.commit(A(2, 2), staged)
        with pytest.raises(UnavailableError):
            run.stage(A(2, 3), [("a", 1)])
        run.sink.discard(A(2, 3), None)
    finally:
        place.server.start()
    with pytest.raises(UnavailableError, match="0 of 2 staged rows are left: the server has crashed"):
        run.sink.commit(A(2, 2), staged)
    run.sink.discard(A(2, 2), staged)
    assert counts(place) == {"a": 1}
    run.batch(2, 4, [("a", 1), ("b", 1)])
    assert counts(place) == {"a": 2, "b": 1}
    assert staging_tables(place) == []


def test_a_task_that_cannot_reach_the_server_reports_it_instead_of_raising(
    spark: SparkSession, place: PostgresTablesPlace
) -> None:
    plan = Roles("counts", "word", "count", (), (), (), {}).plan([("word", "string"), ("count", "bigint")])
    frame = spark.sql("SELECT 'a' AS word, 1L AS count")
    away = PostgresAddress("SqlState", f"postgresql://nobody@/postgres?host={place.server.directory}/away", 2.0)
    [report] = frame.mapInArrow(Writer(away, "staging", plan), REPORT).collect()
    assert (report.rows, report.may_pass) == (0, True)
    assert report.problem.startswith(f"{away.where}: connection")
    there = PostgresAddress("SqlState", place.url, 2.0)
    [report] = frame.mapInArrow(Writer(there, "staging", plan), REPORT).collect()
    assert (report.may_pass, report.problem) == (True, f'{there.where}: relation "staging" does not exist')


def test_a_value_that_the_server_refuses_is_a_mistake(spark: SparkSession, place: PostgresTablesPlace) -> None:
    run = Run(spark, state(place, add="count"))
    with pytest.raises(UsageError, match=r"table 'counts': invalid byte sequence for encoding .UTF8.: 0x00"):
        run.stage(A(1, 1), [("a\0", 1)])


def test_an_error_of_the_job_itself_is_sparks(spark: SparkSession, place: PostgresTablesPlace) -> None:
    run = Run(spark, state(place, add="count"))
    with pytest.raises(PySparkException, match="a bad row"):
        run.sink.stage(A(1, 1), spark.range(1).selectExpr("'a' AS word", "id + raise_error('a bad row') AS count"))


def test_a_user_who_may_not_make_tables_is_told_so(spark: SparkSession, place: PostgresTablesPlace) -> None:
    place.execute("CREATE ROLE visitor LOGIN")
    place.url = place.url.replace("tupletree@", "visitor@")
    with pytest.raises(UsageError, match=r"permission denied|no schema has been selected"):
        Run(spark, state(place, add="count"))
