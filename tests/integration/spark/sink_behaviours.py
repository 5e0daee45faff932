"""What every sink does, whatever it writes to: run for each by a subclass with a fixture ``place``."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.spark.sink import Sink, SinkScope

RULES = pytest.mark.parametrize("is_opaque", [False, True], ids=["transactional", "opaque"])


class Place(Protocol):
    """Where a sink writes to, which adds up ``n`` for each ``word``."""

    def sink(self) -> Sink:
        """A new sink, as each process has its own."""

    def totals(self) -> dict[str, int]:
        """What a reader sees."""

    def staged(self) -> list[str]:
        """What stands there that no reader sees."""

    def wrong_columns(self) -> tuple[str, str]:
        """A schema that the sink does not take, and the column that is to be named."""


class Pipe:
    """One driver of the pipeline: a sink that is open."""

    def __init__(self, spark: SparkSession, place: Place, *, is_opaque: bool, name: str = "pipeline") -> None:
        self.sink = place.sink()
        self.sink.open(SinkScope(name, is_opaque, spark))
        self._spark = spark

    def frame(self, rows: Mapping[str, int]) -> DataFrame:
        return self._spark.createDataFrame(list(rows.items()), "word STRING, n BIGINT")

    def stage(self, txid: int, attempt: int, rows: Mapping[str, int]) -> tuple[TransactionAttempt, Any]:
        which = TransactionAttempt(txid, attempt)
        return which, self.sink.stage(which, self.frame(rows))

    def run(self, txid: int, attempt: int, rows: Mapping[str, int]) -> None:
        self.sink.commit(*self.stage(txid, attempt, rows))


class SinkBehaviours:
    """The tests."""

    @RULES
    def test_a_batch_is_seen_when_it_is_committed(self, spark: SparkSession, place: Place, is_opaque: bool) -> None:
        pipe = Pipe(spark, place, is_opaque=is_opaque)
        second = pipe.stage(2, 2, {"b": 10, "c": 10})
        first = pipe.stage(1, 1, {"a": 1, "b": 1})
        assert place.totals() == {}
        pipe.sink.commit(*first)
        assert place.totals() == {"a": 1, "b": 1}
        pipe.sink.commit(*second)
        assert place.totals() == {"a": 1, "b": 11, "c": 10}
        assert place.staged() == []

    @RULES
    def test_a_commit_may_be_called_again(self, spark: SparkSession, place: Place, is_opaque: bool) -> None:
        pipe = Pipe(spark, place, is_opaque=is_opaque)
        staged = pipe.stage(1, 1, {"a": 1})
        pipe.sink.commit(*staged)
        pipe.sink.commit(*staged)
        assert place.totals() == {"a": 1}

    def test_transactional_a_replay_changes_nothing(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=False)
        pipe.run(1, 1, {"a": 1})
        after_a_crash = Pipe(spark, place, is_opaque=False)
        after_a_crash.run(1, 2, {"a": 1})
        assert place.totals() == {"a": 1}
        assert place.staged() == []

    def test_opaque_a_replay_takes_back_what_the_failed_attempt_did(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=True)
        pipe.run(1, 1, {"a": 1, "b": 1})
        pipe.run(2, 2, {"b": 5, "only of the failed attempt": 5})
        after_a_crash = Pipe(spark, place, is_opaque=True)
        after_a_crash.run(2, 3, {"a": 20, "b": 20})
        assert place.totals() == {"a": 21, "b": 21}
        after_a_crash.run(2, 4, {})
        assert place.totals() == {"a": 1, "b": 1}
        after_a_crash.run(3, 5, {"c": 3})
        assert place.totals() == {"a": 1, "b": 1, "c": 3}
        assert place.staged() == []

    def test_opaque_an_older_attempt_is_stale(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=True)
        older = pipe.stage(1, 1, {"zombie": 1})
        pipe.run(1, 2, {"a": 1})
        with pytest.raises(StaleAttemptError, match=r"attempt 0\.1.* is over, since .*attempt 0\.2"):
            pipe.sink.commit(*older)
        assert place.totals() == {"a": 1}

    @RULES
    def test_an_earlier_transaction_is_stale(self, spark: SparkSession, place: Place, is_opaque: bool) -> None:
        pipe = Pipe(spark, place, is_opaque=is_opaque)
        pipe.run(7, 1, {"a": 1})
        with pytest.raises(StaleAttemptError, match=r"If this persists, another .* was deleted"):
            pipe.run(6, 2, {"b": 1})
        assert place.totals() == {"a": 1}

    @RULES
    def test_a_batch_without_rows_leaves_its_note(self, spark: SparkSession, place: Place, is_opaque: bool) -> None:
        pipe = Pipe(spark, place, is_opaque=is_opaque)
        pipe.run(1, 1, {})
        assert place.totals() == {}
        pipe.run(2, 2, {})
        with pytest.raises(StaleAttemptError):
            pipe.run(1, 3, {"a": 1})

    def test_what_is_discarded_is_gone(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=False)
        kept, dropped = pipe.stage(1, 1, {"a": 1}), pipe.stage(2, 2, {"a": 1})
        pipe.sink.discard(*dropped)
        pipe.sink.discard(*dropped)
        pipe.sink.commit(*kept)
        with pytest.raises(UnavailableError, match="are gone"):
            pipe.sink.commit(*dropped)
        assert (place.totals(), place.staged()) == ({"a": 1}, [])

    def test_a_job_that_fails_leaves_nothing(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=False)
        attempt = TransactionAttempt(1, 1)
        bad = pipe.frame({"a": 1, "b": 0}).selectExpr("word", "1 div n AS n")
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            pipe.sink.stage(attempt, bad)
        pipe.sink.discard(attempt, None)
        assert place.staged() == []

    def test_what_a_dead_driver_has_staged_is_removed(self, spark: SparkSession, place: Place) -> None:
        dead = Pipe(spark, place, is_opaque=False)
        left = dead.stage(1, 1, {"a": 1})
        assert place.staged() != []
        Pipe(spark, place, is_opaque=False)
        assert place.staged() == []
        with pytest.raises(UnavailableError, match="are gone"):
            dead.sink.commit(*left)
        assert place.totals() == {}

    def test_another_pipeline_is_refused(self, spark: SparkSession, place: Place) -> None:
        Pipe(spark, place, is_opaque=False, name="mine")
        with pytest.raises(UsageError, match="belongs to the pipeline 'mine'"):
            Pipe(spark, place, is_opaque=False, name="yours")

    def test_wrong_columns_are_named(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=False)
        schema, name = place.wrong_columns()
        with pytest.raises(UsageError, match=repr(name)):
            pipe.sink.stage(TransactionAttempt(1, 1), spark.createDataFrame([], schema))

    def test_a_reader_never_sees_a_part_of_a_batch(self, spark: SparkSession, place: Place) -> None:
        pipe = Pipe(spark, place, is_opaque=True)
        words = [f"word {number}" for number in range(200)]
        batches = [pipe.stage(txid, txid, dict.fromkeys(words, 1)) for txid in range(1, 6)]
        seen: list[dict[str, int]] = []
        is_done = threading.Event()

        def read() -> None:
            while not is_done.is_set():
                seen.append(place.totals())

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for batch in batches:
                pipe.sink.commit(*batch)
        finally:
            is_done.set()
            reader.join()
        for totals in [*seen, place.totals()]:
            assert totals in [dict.fromkeys(words, number) if number else {} for number in range(6)]
