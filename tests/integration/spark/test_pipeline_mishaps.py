"""What users' code, sinks and results may do to a pipeline besides failing as they should. In a LocalCluster."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from local_components import Latch, Log
from local_spark import LOCAL
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tupletree import BasicBolt
from tupletree.attempt import TransactionAttempt
from tupletree.errors import TaskFailedError, UnavailableError
from tupletree.spark import ForeachBatch, Pipeline, Sink
from tupletree.spark.sink import SinkScope
from tupletree.spark.sources.memory import MemorySource
from tupletree.testing import LocalCluster

pytestmark = pytest.mark.usefixtures("spark")

CONF = {**LOCAL, "topology.max.spout.pending": 1, "pipeline.retry.pause.secs": 0.1}


class Numbers(Pipeline):
    transactional_id = "numbers"

    def __init__(self, *sinks: Sink, **parts: Any) -> None:
        self.source = MemorySource([[[1], [2], [3]]], "number BIGINT", 1)
        self.sinks = list(sinks)
        vars(self).update(parts)


def test_code_of_the_user_that_exits_or_is_refused_a_connection_fails_its_batch_alone() -> None:
    log, calls = Log(), Log()

    def process(batch: DataFrame) -> DataFrame:
        calls.append("process")
        if len(calls) == 1:
            sys.exit("no such setting")
        return batch

    def save(result: DataFrame, txid: int) -> None:
        calls.append("save")
        if calls.count("save") == 1:
            sys.exit("no such table")
        if calls.count("save") == 2:
            raise ConnectionRefusedError(111, "Connection refused")
        log.append(txid)

    with LocalCluster() as cluster:
        cluster.submit("numbers", Numbers(ForeachBatch(save), process=process).topology(), CONF)
        cluster.wait_until(lambda: list(log) == [1, 2, 3], timeout=60)
        reported = str(cluster.errors("numbers"))
    assert "SystemExit: no such setting" in reported and "SystemExit: no such table" in reported
    assert "ConnectionRefusedError" in reported and "session is gone" not in reported


@pytest.mark.long
def test_a_commit_that_does_not_end_ends_the_worker() -> None:
    released = Latch()

    def save(result: DataFrame, txid: int) -> None:
        released.wait(100)

    conf = {**CONF, "pipeline.batch.timeout.secs": 3}
    with pytest.raises(TaskFailedError, match=r"the commit of transaction 1 .* has not ended after 3 s"):  # noqa: SIM117
        with LocalCluster() as cluster:
            cluster.submit("numbers", Numbers(ForeachBatch(save)).topology(), conf)
            cluster.wait_until(lambda: False, timeout=60)
    released.set()


def test_spark_does_not_print_the_java_of_a_mistake(spark: SparkSession) -> None:
    printed: list[logging.LogRecord] = []

    class Printed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            printed.append(record)

    printer = Printed()
    loggers = [logging.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    for logger in loggers:
        logger.addHandler(printer)
    try:
        for mistake in (lambda: spark.range(1).select("no.such"), lambda: spark.sql("SELECT such FROM range(1)")):
            with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN") as raised:
                mistake()
            assert raised.value.getQueryContext(), "it would be printed"
    finally:
        for logger in loggers:
            logger.removeHandler(printer)
    assert printed == []


class Taken(BasicBolt):
    def __init__(self, log: Log) -> None:
        self.log = log

    def execute(self, tup: Any, collector: Any) -> None:
        self.log.append(tup[0])


def test_columns_of_any_name_are_emitted() -> None:
    log = Log()
    name = "a.`b` 'c\""
    pipeline = Numbers(outputs=[name], process=lambda batch: batch.withColumnRenamed("number", name))
    builder = pipeline.builder()
    builder.set_bolt("taken", Taken(log)).shuffle_grouping("pipeline")
    with LocalCluster() as cluster:
        cluster.submit("numbers", builder.create_topology(), CONF)
        cluster.wait_until(lambda: list(log) == [1, 2, 3], timeout=60)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("array(struct(map('a', cast(number AS DECIMAL(5,1)))))", "is a decimal128"),
        ("timestamp'+12000-01-01 00:00:00'", "has a value that tuples do not carry: date value out of range"),
        ("array(timestamp'+12000-01-01 00:00:00')", "has a value that tuples do not carry: date value out of range"),
        ("cast(X'FF' AS STRING)", "has a value that tuples do not carry: 'utf-8' codec"),
    ],
)
def test_what_tuples_do_not_carry_fails_the_batch_and_not_the_worker(expression: str, said: str) -> None:
    pipeline = Numbers(outputs=["made"], process=lambda batch: batch.select(F.expr(expression).alias("made")))
    with LocalCluster() as cluster:
        cluster.submit("numbers", pipeline.topology(), {**CONF, "pipeline.max.attempts": 2})
        cluster.wait_until(lambda: "stopped at transaction 1" in str(cluster.errors("numbers")), timeout=60)
        assert said in str(cluster.errors("numbers"))


class Away(Sink):
    """It cannot be opened before a file is there."""

    def __init__(self, there: Path, log: Log) -> None:
        self.there = there
        self.log = log

    def open(self, scope: SinkScope) -> None:
        self.log.append("open")
        if not self.there.exists():
            raise UnavailableError("the sink is away")

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> None:
        result.collect()

    def commit(self, attempt: TransactionAttempt, staged: None) -> None:
        self.log.append(attempt.txid)


@pytest.mark.long
def test_a_sink_that_is_away_for_longer_than_a_batch_may_take_stops_nothing(tmp_path: Path) -> None:
    log = Log()
    conf = {**CONF, "pipeline.batch.timeout.secs": 3, "pipeline.max.attempts": 2}
    with LocalCluster() as cluster:
        cluster.submit("numbers", Numbers(Away(tmp_path / "there", log)).topology(), conf)
        cluster.wait_until(lambda: list(log).count("open") >= 8, timeout=60)  # a second between them
        assert "are not ready after 3 s" in str(cluster.errors("numbers"))
        (tmp_path / "there").touch()
        cluster.wait_until(lambda: list(log)[-3:] == [1, 2, 3], timeout=60)
