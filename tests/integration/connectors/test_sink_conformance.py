"""What every transactional sink does, at its real server: a transaction's rows are written once, whatever crashes."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sink_places import (
    DeltaPlace,
    FilesPlace,
    IcebergPlace,
    ParquetPlace,
    PostgresPlace,
    RedisPlace,
    SinkPlace,
    SqlitePlace,
)

from tests.integration.transactional.database_servers import PostgresServer, RedisServer, running
from tupletree import TopologyBuilder
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.testing import FeederSpout, LocalCluster, wait_until

OwnSink = Callable[..., TransactionalSink]


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with running(PostgresServer) as server:
        yield server


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running(RedisServer) as server:
        yield server


KEYED = ["sqlite", "postgres", "redis"]
"""The places where a row replaces the row of its key."""
FILES = ["json_lines", "parquet"]
"""The places where an attempt can be taken back, and rows have no keys."""
APPENDED = ["delta", pytest.param("iceberg", marks=pytest.mark.long)]
"""The places where rows are appended for good."""
IN_FILES: dict[str, Callable[[Path], SinkPlace]] = {
    "sqlite": SqlitePlace,
    "json_lines": FilesPlace,
    "parquet": ParquetPlace,
    "delta": DeltaPlace,
    "iceberg": IcebergPlace,
}

keyed = pytest.mark.parametrize("place", KEYED, indirect=True)
replaced = pytest.mark.parametrize("place", KEYED + FILES, indirect=True)
appended = pytest.mark.parametrize("place", APPENDED, indirect=True)


@pytest.fixture(params=[*KEYED, *FILES, *APPENDED])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SinkPlace:
    if request.param in IN_FILES:
        return IN_FILES[request.param](tmp_path)
    if request.param == "redis":
        return RedisPlace(request.getfixturevalue("redis_server"))
    return PostgresPlace(request.getfixturevalue("postgres_server"))


@pytest.fixture
def opened(place: SinkPlace) -> Iterator[OwnSink]:
    """Opens the sink of an owner, as a task gets it: pickled."""
    with contextlib.ExitStack() as stack:

        def open_sink(owner: str = "words/count/0", *, is_opaque: bool = False) -> TransactionalSink:
            sink: TransactionalSink = pickle.loads(pickle.dumps(place.sink()))
            sink.open(owner, is_opaque=is_opaque)
            stack.callback(sink.close)
            return sink

        yield open_sink


def commit(sink: TransactionalSink, txid: int, rows: dict[str, int], attempt: int = 1) -> None:
    sink.commit(TransactionAttempt(txid, attempt), list(rows.items()))


def assert_written(place: SinkPlace, *transactions: Mapping[str, int]) -> None:
    """The table has the rows of these transactions in their order, each once, and no others."""
    rows = [row for each in transactions for row in each.items()]
    assert sorted(place.counts()) == sorted(dict(rows).items() if place.has_keys else rows)


@keyed
def test_a_row_replaces_the_row_of_its_key_and_the_last_of_a_transaction_wins(
    place: SinkPlace, opened: OwnSink
) -> None:
    sink = opened()
    sink.commit(TransactionAttempt(1, 1), [("a", 1), ("b", 1), ("a", 2)])
    commit(sink, 2, {"b": 3, "c": 4})
    assert_written(place, {"a": 2, "b": 3, "c": 4})


def test_the_note_of_a_transaction_is_found_by_a_later_life_of_its_owner(place: SinkPlace, opened: OwnSink) -> None:
    commit(opened(), 1, {"a": 1})
    commit(opened(), 1, {"a": 5, "b": 5}, attempt=2)
    assert_written(place, {"a": 1})
    commit(opened(), 2, {"b": 6})
    assert_written(place, {"a": 1}, {"b": 6})


@pytest.mark.parametrize(
    ("place", "is_opaque"),
    [(name, is_opaque) for name in KEYED + FILES for is_opaque in (False, True)]
    + [("delta", False), pytest.param("iceberg", False, marks=pytest.mark.long)],
    indirect=["place"],
)
def test_an_owner_that_was_overtaken_is_refused_and_writes_nothing(
    place: SinkPlace, opened: OwnSink, is_opaque: bool
) -> None:
    old, new = opened(is_opaque=is_opaque), opened(is_opaque=is_opaque)
    commit(old, 1, {"a": 1})
    commit(new, 1, {"a": 1})
    commit(new, 2, {"a": 2})
    with pytest.raises(StaleAttemptError, match=r"transaction 1 \(attempt 0.1\) is over"):
        commit(old, 1, {"a": 1, "b": 1})
    assert_written(place, {"a": 1}, {"a": 2})


def test_each_owner_has_a_note_of_its_own(place: SinkPlace, opened: OwnSink) -> None:
    first, second = opened("words/count/0"), opened("words/count/1")
    commit(first, 5, {"a": 1})
    commit(second, 1, {"b": 1})
    commit(second, 2, {"b": 2})
    commit(first, 5, {"a": 9})
    assert_written(place, {"a": 1}, {"b": 1}, {"b": 2})


@replaced
def test_a_replay_with_other_rows_takes_back_what_the_attempt_before_has_written(
    place: SinkPlace, opened: OwnSink
) -> None:
    sink = opened(is_opaque=True)
    commit(sink, 1, {"a": 1, "b": 1})
    commit(sink, 2, {"a": 2, "c": 2}, attempt=2)
    commit(opened(is_opaque=True), 2, {"b": 3, "d": 3}, attempt=3)
    assert_written(place, {"a": 1, "b": 1}, {"b": 3, "d": 3})
    commit(sink, 2, {"e": 4}, attempt=3)
    assert_written(place, {"a": 1, "b": 1}, {"b": 3, "d": 3})
    with pytest.raises(StaleAttemptError, match=r"attempt 0.2\) is over"):
        commit(sink, 2, {"a": 2, "c": 2}, attempt=2)
    commit(sink, 2, {}, attempt=4)
    assert_written(place, {"a": 1, "b": 1})


@replaced
def test_what_one_owner_takes_back_leaves_the_rows_of_others_alone(place: SinkPlace, opened: OwnSink) -> None:
    first, second = opened("words/count/0", is_opaque=True), opened("words/count/1", is_opaque=True)
    commit(first, 1, {"a": 1})
    commit(second, 1, {"b": 1})
    commit(first, 1, {"c": 2}, attempt=2)
    assert_written(place, {"b": 1, "c": 2})
    commit(second, 1, {}, attempt=2)
    assert_written(place, {"c": 2})


@appended
def test_where_rows_are_appended_opaque_transactions_are_refused(place: SinkPlace, opened: OwnSink) -> None:
    with pytest.raises(UsageError, match="cannot be written behind an opaque source: another attempt can have other"):
        opened(is_opaque=True)


def test_of_lives_that_commit_at_the_same_time_one_writes(place: SinkPlace, opened: OwnSink) -> None:
    lives = [opened() for _ in range(3)]
    others = [opened(f"words/count/{number}") for number in (1, 2)]
    with ThreadPoolExecutor(len(lives) + len(others)) as threads:
        for txid in range(1, 6):
            begin = threading.Barrier(len(lives) + len(others))
            ends = [threads.submit(commit_with, begin, life, txid, {f"a{txid}": 1}) for life in lives]
            ends += [
                threads.submit(commit_with, begin, other, txid, {f"{index}-{txid}": 1})
                for index, other in enumerate(others)
            ]
            for end in ends:
                end.result(60)
    rows = [{f"a{txid}": 1, f"0-{txid}": 1, f"1-{txid}": 1} for txid in range(1, 6)]
    assert_written(place, *rows)


def commit_with(begin: threading.Barrier, sink: TransactionalSink, txid: int, rows: dict[str, int]) -> None:
    """Commit when all others are ready, as often as it takes."""
    begin.wait(30)
    wait_until(lambda: committed(sink, txid, rows), 30, what="the commit succeeds")


CHILD = """
import os, pickle, signal, sys, time
from tests.integration.transactional.database_servers import PostgresServer, RedisServer, running
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
sink = pickle.load(sys.stdin.buffer)
sink.open("words/count/0")
print("begins", flush=True)
while True:
    try:
        sink.commit(TransactionAttempt(1, 1), [("a", 1)])
        break
    except UnavailableError:
        time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def committing(place: SinkPlace) -> Iterator[subprocess.Popen[bytes]]:
    """A process that commits transaction 1, and is killed when that is done."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def begin(child: subprocess.Popen[bytes], sink: TransactionalSink) -> None:
    assert child.stdin is not None and child.stdout is not None
    pickle.dump(sink, child.stdin)
    child.stdin.close()
    assert child.stdout.readline() == b"begins\n"


def test_a_crash_after_the_commit_leaves_rows_and_note(
    place: SinkPlace, opened: OwnSink, committing: subprocess.Popen[bytes]
) -> None:
    begin(committing, place.sink())
    assert committing.wait(30) == -signal.SIGKILL
    assert_written(place, {"a": 1})
    commit(opened(), 1, {"b": 1})
    assert_written(place, {"a": 1})


def test_a_crash_before_the_commit_leaves_neither(
    place: SinkPlace, opened: OwnSink, committing: subprocess.Popen[bytes]
) -> None:
    commit(opened("another"), 1, {"z": 0})
    with place.hold():
        begin(committing, place.sink())
        os.kill(committing.pid, signal.SIGKILL)
        assert committing.wait(30) == -signal.SIGKILL
    assert_written(place, {"z": 0})
    commit(opened(), 1, {"b": 1})
    assert_written(place, {"b": 1}, {"z": 0})


def test_while_the_system_gives_no_answer_the_commit_is_unavailable_and_succeeds_later(
    place: SinkPlace, opened: OwnSink
) -> None:
    sink = opened()
    commit(sink, 1, {"a": 1})
    with place.hold(), pytest.raises(UnavailableError):
        commit(sink, 2, {"a": 2})
    wait_until(lambda: committed(sink, 2, {"a": 2}), 30, what="the commit succeeds")
    assert_written(place, {"a": 1}, {"a": 2})


def test_a_connection_that_is_cut_is_opened_again(place: SinkPlace, opened: OwnSink) -> None:
    sink = opened()
    for txid in range(1, 4):
        commit(sink, txid, {"a": txid})
        place.cut()
        wait_until(lambda: committed(sink, txid, {"a": 100}), 30, what="the note is found")  # noqa: B023
        assert_written(place, *({"a": each} for each in range(1, txid + 1)))


def committed(sink: TransactionalSink, txid: int, rows: dict[str, int]) -> bool:
    try:
        commit(sink, txid, rows)
    except UnavailableError:
        return False
    return True


@keyed
def test_a_row_without_a_key_is_refused(place: SinkPlace) -> None:
    [fault] = place.sink().faults([(None, 1)]).values()
    assert "the value None of field 'word' cannot be stored as string: it is part of the key" in str(fault)


@pytest.mark.parametrize("place", [*KEYED, "parquet", *APPENDED], indirect=True)
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("b", 1.5), "the value 1.5 of field 'count' cannot be stored as bigint"),
        (("b", 1 << 70), "of field 'count' cannot be stored as bigint"),
        (("b", "1"), "the value '1' of field 'count' cannot be stored as bigint: it is of type str"),
        (("\ud800", 1), "of field 'word' cannot be stored as string"),
        (("b",), "a row has 2 values, those of word, count"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_and_its_transaction_writes_nothing(
    place: SinkPlace, opened: OwnSink, row: tuple[Any, ...], message: str
) -> None:
    sink = opened()
    commit(sink, 1, {"a": 1})
    rows = [("a", 2), row, ("c", 2)]
    assert {index: message in str(error) for index, error in sink.faults(rows).items()} == {1: True}
    with pytest.raises(UsageError):
        sink.commit(TransactionAttempt(2, 1), rows)
    assert_written(place, {"a": 1})
    assert not sink.faults([("a", 2), ("c", None)])


def test_rows_are_written_at_least_once_without_a_note(place: SinkPlace) -> None:
    sink = place.sink()
    for _ in range(2):
        sink.write([("a", 1), ("b", 2)])
    sink.close()
    sink.write([("b", 3)])
    assert_written(place, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 3})
    sink.close()


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_write_without_rows_is_refused_for_what_is_wrong_with_the_table(place: SinkPlace) -> None:
    with contextlib.closing(place.sink()) as sink:
        sink.write([])
        sink.write([("a", 1)])
        place.run("ALTER TABLE counts RENAME COLUMN count TO amount")
        with pytest.raises(UsageError, match="table 'counts' exists and has no column 'count'"):
            sink.write([])


def test_a_missing_right_is_refused_without_rows_too(postgres_server: PostgresServer) -> None:
    place = PostgresPlace(postgres_server)
    with contextlib.closing(place.sink()) as sink:
        sink.write([("a", 1)])
    place.run(f"CREATE ROLE {place.schema}; GRANT USAGE ON SCHEMA {place.schema} TO {place.schema}")
    place.run(f"GRANT SELECT ON counts TO {place.schema}")
    place.url += f"%20-crole%3D{place.schema}"
    with contextlib.closing(place.sink()) as sink, pytest.raises(UsageError, match="permission denied for table count"):
        sink.write([])


def test_a_row_too_large_for_an_index_fails_alone(postgres_server: PostgresServer) -> None:
    place, feeder, builder = PostgresPlace(postgres_server), FeederSpout(["word", "count"]), TopologyBuilder()
    builder.set_bolt("out", RowSinkBolt(place.sink())).shuffle_grouping(builder.set_spout("words", feeder))
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology())
        for msg_id, word in enumerate(["a", random.Random(1).randbytes(6000).hex(), "b"]):
            feeder.feed([word, msg_id], msg_id)
        cluster.wait_until(lambda: len(feeder.acked) + len(feeder.failed) == 3)
        assert (sorted(feeder.acked), feeder.failed, sorted(place.counts())) == ([0, 2], [1], [("a", 0), ("b", 2)])
        [(_, error)] = cluster.errors("words")
        assert isinstance(error, UsageError) and "table 'counts': index row requires" in str(error)
