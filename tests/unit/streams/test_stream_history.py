"""Tables, states and joins of a program begin with a history, and a program that could not go on with it is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tupletree.connectors.kafka import KafkaLog, KafkaSpout
from tupletree.connectors.log_source import Bounds
from tupletree.errors import ReportedFailedException, UsageError
from tupletree.streams import KeyedStream, ParquetHistory, StreamBuilder, Table
from tupletree.streams.builder import Guarantee
from tupletree.testing import LocalCluster, simulate

WORDS = [f"word{number % 23}" for number in range(200)]
DURABLE = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": "/states"}}


class Sale(NamedTuple):
    shop: str
    amount: int


def written(path: Path, rows: list[dict[str, Any]], files: int = 1) -> Path:
    """Write rows to files of a directory, in order."""
    path.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        size = -(-len(rows) // files)
        pq.write_table(pa.Table.from_pylist(rows[number * size :][:size]), path / f"part-{number}.parquet")
    return path


def words_of(text: str) -> KeyedStream[str, str]:
    return StreamBuilder().source(text.split()).key_by(lambda word: word)


@pytest.mark.parametrize("combine", [True, False])
def test_a_table_goes_on_with_the_sum_of_all_rows_of_a_key(tmp_path: Path, combine: bool) -> None:
    rows = [{"word": word, "n": n} for word, n in (("a", 3), ("b", 4), ("a", 2))]
    history = ParquetHistory(written(tmp_path, rows, 2), key="word", value="n")
    counts = words_of("a c a").count(history=history, combine=combine)
    assert dict(counts.collect(9)) == {"a": 7, "c": 1}


def test_each_task_begins_with_its_own_keys(tmp_path: Path) -> None:
    rows = [{"word": word, "n": n} for word, n in Counter(WORDS[:150]).items()]
    history = ParquetHistory(written(tmp_path, rows, 3), key="word", value="n")
    builder = StreamBuilder()
    counted = builder.source(WORDS[150:]).key_by(lambda word: word).count(history=history, parallelism=3)
    expected = {word: n for word, n in Counter(WORDS).items() if word in WORDS[150:]}
    assert dict(counted.collect(999)) == expected


def test_a_value_is_a_column_a_tuple_of_columns_or_a_record(tmp_path: Path) -> None:
    path = written(tmp_path, [{"shop": "north", "amount": 5, "number": 2}])
    builder = StreamBuilder()
    sales = builder.source([Sale("north", 1)]).key_by(lambda sale: sale.shop)

    def older(state: Sale | None, sale: Sale) -> tuple[Sale, Sale | None]:
        return sale, state

    last = sales.update_state(older, history=ParquetHistory(path, key="shop", value=Sale))
    assert last.collect(1) == [("north", Sale("north", 5))]

    def add(total: tuple[int, int], sale: Sale) -> tuple[int, int]:
        return total[0] + sale.amount, total[1] + 1

    history = ParquetHistory(path, key="shop", value=["amount", "number"])
    assert sales.aggregate(lambda: (0, 0), add, history=history).collect(1) == [("north", (6, 3))]


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"a": "x", "b": 1, "n": 5}]), key=["a", "b"], value="n")
    counts = StreamBuilder().source([("x", 1)]).key_by(lambda pair: pair).count(history=history, parallelism=2)
    assert counts.collect(1) == [(("x", 1), 6)]


def test_a_join_finds_the_rows_of_the_history_of_its_table(tmp_path: Path) -> None:
    path = written(tmp_path, [{"user": "ann", "name": "Ann"}, {"user": "ann", "name": "Ann Lee"}])
    history = ParquetHistory(path, key="user", value="name")
    builder = StreamBuilder()
    clicks = builder.source(["ann", "bob"], name="clicks").key_by(lambda user: user)
    users = builder.source([("eve", "Eve")], name="users").key_by(lambda row: row[0]).map(lambda row: row[1])
    named = clicks.left_join_table(users, lambda user, name: name, history=history, parallelism=2)
    assert dict(named.collect(2)) == {"ann": "Ann Lee", "bob": None}


def test_a_second_row_of_a_key_needs_a_merge(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"k": "a", "v": 1}, {"k": "a", "v": 2}]), key="k", value="v")
    table = words_of("a").aggregate(lambda: 0, lambda total, word: total + 1, history=history)
    check_reported(table, "has two rows of key 'a', and the aggregation has no merge")


def test_a_key_that_no_stream_has_is_refused(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"k": 1.5, "v": 1}]), key="k", value="v")
    check_reported(words_of("a").count(history=history), "row 0: the key is 1.5; a str, bytes, an int or a tuple")


def test_a_column_that_is_missing_is_reported(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"k": "a", "v": 1}]), key="k", value="n")
    check_reported(words_of("a").count(history=history), "has no column 'n'; it has k, v")


def test_files_that_come_later_are_no_part_of_the_history(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"k": "a", "n": 1}]), key="k", value="n")
    pq.write_table(pa.table({"k": ["a"], "n": [100]}), tmp_path / "part-9.parquet")
    assert words_of("a").count(history=history).collect(1) == [("a", 2)]


def test_a_directory_without_parquet_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no Parquet files"):
        ParquetHistory(tmp_path, key="k", value="n")
    with pytest.raises(UsageError, match=r"cannot be read: .*No such file"):
        ParquetHistory(tmp_path / "missing", key="k", value="n")


def counting(history: ParquetHistory, guarantee: Guarantee, **options: Any) -> None:
    builder = StreamBuilder()
    builder.source(KafkaSpout("broker:9092", "clicks", **options)).key_by(lambda click: click).count(history=history)
    builder.topology(guarantee)


def test_a_source_that_begins_elsewhere_is_refused(tmp_path: Path) -> None:
    written(tmp_path, [{"k": "a", "n": 1}])
    history = ParquetHistory(tmp_path, key="k", value="n", positions={"clicks/0": 5000})
    counting(history, "at_least_once", start=history.positions)
    counting(history, "exactly_once", start=history.positions, group="g")
    for start in ("earliest", {"clicks/0": 4999}, {"clicks/1": 5000}):
        with pytest.raises(UsageError, match="history that ends at 5,000 of 'clicks/0', and no source of it begins"):
            counting(history, "exactly_once", start=start)
    with pytest.raises(UsageError, match="consumer group of its source can have other positions"):
        counting(history, "at_least_once", start=history.positions, group="g")


@pytest.mark.parametrize("start", [{"orders/0": 1}, {"clicks": 1}, {"clicks/0": -1}, {"clicks/0": True}, {1: 1}])
def test_offsets_are_of_partitions_of_the_topics(start: Any) -> None:
    with pytest.raises(UsageError, match=r"Kafka: start is .*; the offset of a partition"):
        KafkaSpout("broker:9092", "clicks", start=start)


def test_a_partition_begins_at_its_offset_or_waits() -> None:
    log = KafkaLog("broker:9092", "clicks", start={"clicks/0": 5})
    assert log.begin("clicks/0", Bounds(0, 9)) == log.begin("clicks/0", Bounds(5, 5)) == 5
    assert log.begin("clicks/1", Bounds(2, 9)) == 2
    for bounds in (Bounds(0, 4), Bounds(6, 9)):
        with pytest.raises(
            ReportedFailedException, match=f"offset 5 by its start, and .* {bounds.first} to {bounds.end}"
        ):
            log.begin("clicks/0", bounds)


def test_a_table_that_is_added_to_a_program_cannot_begin_with_a_history(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path / "history", [{"k": "a", "n": 1}]), key="k", value="n")
    states = {"topology.state.id": "s", "topology.state.checkpoint.interval.ms": 50, **DURABLE}
    states["topology.state.provider.config"] = {"directory": str(tmp_path / "states")}
    with LocalCluster() as cluster:
        for has_history in (False, True):
            builder = StreamBuilder()
            words = builder.source(["a", "b"], name="words").key_by(lambda word: word)
            words.count(name="first")
            if has_history:
                words.count(name="second", history=history)
            cluster.submit("t", builder.topology("exactly_once"), states)
            if not has_history:
                cluster.wait_until(lambda: cluster.is_at_end("t"), timeout=30)
                cluster.kill("t")
        text = "component 'second' has no state, and the sources have gone on to checkpoint "
        cluster.wait_until(lambda: any(text in str(error) for _, error in cluster.errors("t")), timeout=30)


def test_a_join_with_a_table_that_has_a_history_needs_one(tmp_path: Path) -> None:
    history = ParquetHistory(written(tmp_path, [{"k": "a", "n": 1}]), key="k", value="n")
    builder = StreamBuilder()
    clicks = builder.source(["a"], name="clicks").key_by(lambda key: key)
    table = builder.source(["a"], name="users").key_by(lambda key: key).count(history=history).filter(bool)
    with pytest.raises(UsageError, match=r"without the history of its table, a count: write join_table\("):
        clicks.join_table(table, lambda click, n: n)
    with pytest.raises(UsageError, match="takes no history with versioned=True"):
        clicks.join_table(table, lambda click, n: n, versioned=True, history=history)


@pytest.mark.long
def test_crashes_between_any_two_steps_neither_lose_nor_repeat_a_history(tmp_path: Path) -> None:
    rows = [{"word": word, "n": n} for word, n in Counter(WORDS[:150]).items()]
    history = ParquetHistory(written(tmp_path, rows), key="word", value="n")
    builder = StreamBuilder(parallelism=2)
    builder.source(WORDS[150:], name="words").key_by(lambda word: word).count(name="count", history=history)

    def check(outcome: Any) -> None:
        outcome.compare(outcome.states["count"], Counter(WORDS))

    simulate(builder.topology("exactly_once"), seeds=range(10), check=check, conf=DURABLE)


def check_reported(table: Table[Any, Any], text: str) -> None:
    with LocalCluster() as cluster:
        cluster.submit("t", table.builder.topology())
        cluster.wait_until(lambda: any(text in str(error) for _, error in cluster.errors("t")), timeout=20)
