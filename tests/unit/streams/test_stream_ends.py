"""Windows by the clock at the end of a local run: all of them are emitted, however long they are."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree import CountWindow, Session, Sliding, StatefulBolt, Tumbling
from tupletree.cli.main import main
from tupletree.connectors.sqlite import SqliteSink
from tupletree.streams import KeyedStream, Stream, StreamBuilder
from tupletree.streams.builder import Guarantee

HOUR = timedelta(hours=1)
MS = timedelta(milliseconds=1)


class Sale(NamedTuple):
    item: str
    n: int


# The clock can pass the end of a window in the midst of a run, so that elements are in two: results are added up.


def keyed(elements: list[int], parallelism: int = 1) -> KeyedStream[int, int]:
    source = StreamBuilder(parallelism=parallelism).source(elements, name="numbers")
    return source.key_by(lambda n: n % 3)


def added(stream: Stream[Any]) -> Counter[Any]:
    """Return the sum of the values of all windows by key."""
    sums: Counter[Any] = Counter()
    for key, window in stream.collect(1_000_000, seconds=60):
        sums[key] += window.value
    return sums


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(1, 50), max_size=30),
    st.sampled_from([1, 2]),
    st.sampled_from([Tumbling(HOUR), Session(timedelta(days=1))]),
)
def test_all_windows_by_the_clock_are_emitted_at_the_end(numbers: list[int], parallelism: int, window: Any) -> None:
    sums = added(keyed(numbers, parallelism).window(window, processing_time=True).sum())
    expected: Counter[int] = Counter()
    for n in numbers:
        expected[n % 3] += n
    assert sums == expected


@pytest.mark.parametrize("window", [Tumbling(HOUR), Sliding(2 * HOUR, every=2 * HOUR), Session(HOUR)])
def test_windows_of_windows_by_the_clock_are_emitted_after_these(window: Any) -> None:
    numbers = list(range(50))
    per_key = keyed(numbers, 2).window(window, processing_time=True).count().map(lambda result: result.value)
    total = per_key.values().key_by(lambda n: "all").window(window, processing_time=True).sum()
    assert added(total) == {"all": 50}


def test_windows_by_the_clock_are_merged_before_those_in_event_time_end() -> None:
    builder = StreamBuilder(parallelism=2)
    counts = [
        builder.source(range(20), name=name)
        .key_by(lambda n: n % 3)
        .window(Session(HOUR), processing_time=True)
        .count()
        .values()
        for name in ("first", "second")
    ]
    timed = counts[0].merge(counts[1]).event_time(lambda window: window.value, max_lag=MS)
    windows = (
        timed.key_by(lambda window: window.value)
        .window(Tumbling(1000 * MS))
        .aggregate(int, lambda total, w: total + w.value)
    )
    assert sum(added(windows).values()) == 40


def test_early_results_by_the_clock_come_before_the_last_ones() -> None:
    windows = keyed([3] * 5).window(Session(HOUR), processing_time=True, early_every=timedelta(minutes=30)).count()
    results = [window for _, window in windows.collect(9, seconds=60)]
    assert [(window.value, window.timing) for window in results] == [(5, "early"), (5, "on_time")]


def test_a_window_by_count_that_is_not_full_is_not_emitted_at_the_end() -> None:
    windows = keyed([3] * 5).window(CountWindow(2)).to_list().collect(9, seconds=60)
    assert [window.value for _, window in windows] == [[3, 3], [3, 3]]


@pytest.mark.nightly
def test_the_last_windows_take_longer_than_ten_seconds_where_the_program_may() -> None:
    def slow(key: int) -> int:
        threading.Event().wait(1)
        return key

    keys = list(range(12))
    stream = StreamBuilder().source(keys, name="keys").key_by(lambda key: key)
    results = stream.window(Session(HOUR), processing_time=True).count().items().map(lambda pair: slow(pair[0]))
    assert sorted(results.collect(99, seconds=60)) == keys


PROGRAM = """from datetime import timedelta
from tupletree import Tumbling
from tupletree.streams import StreamBuilder
builder = StreamBuilder()
words = builder.source(["a", "b", "a"]).key_by(lambda word: word)
words.window(Tumbling(timedelta(days=99)), processing_time=True).count().map(lambda window: window.value).print()
"""

WAYS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "tupletree local": ("topology = builder.topology()", lambda file: main(["local", str(file), "--seconds", "60"])),
    "run_local": (
        "builder.run_local(seconds=60, guarantee='exactly_once')",
        lambda file: exec(compile(file.read_text(), str(file), "exec"), {"__name__": "program"}),
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_each_way_to_run_a_program_here_ends_its_windows(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    last, run = WAYS[name]
    (tmp_path / "words.py").write_text(PROGRAM + last + "\n")
    run(tmp_path / "words.py")
    assert {"a: 2", "b: 1"} <= set(capfd.readouterr().out.splitlines())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_run_waits_for_no_interval_once_its_sources_are_read(guarantee: Guarantee, tmp_path: Path) -> None:
    """All intervals are longer than the run may take, which then would end without the rows."""
    stream = StreamBuilder().source([Sale("a", 1), Sale("b", 2)], name="sales")
    stream.to_dataframe_sink(tmp_path / "sales", name="sales-table")
    stream.key_by(lambda sale: sale.item).count().to_dataframe_sink(
        tmp_path / "counts", {"item": "string", "n": "bigint"}, name="counts"
    )
    conf = {
        "topology.message.timeout.secs": 1000,
        "topology.tick.tuple.freq.secs": 800,
        "topology.state.checkpoint.interval.ms": 900_000,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    stream.builder.run_local(seconds=60, guarantee=guarantee, conf=conf)
    for name, rows in {"sales": [("a", 1), ("b", 2)], "counts": [("a", 1), ("b", 1)]}.items():
        assert sorted(tuple(row.values()) for row in pq.read_table(tmp_path / name).to_pylist()) == rows


class SlowCommits(StatefulBolt):
    """Passes tuples on, and hears of a commit long after the source."""

    outputs = ("item", "n")

    def execute(self, tup: Any) -> None:
        self.collector.emit([tup["item"], tup["n"]], [tup])
        self.collector.ack(tup)

    def pre_commit(self, txid: int) -> None:
        time.sleep(0.5)


def test_a_run_ends_when_its_last_checkpoint_is_complete_in_its_sinks(tmp_path: Path) -> None:
    stream = StreamBuilder().source([Sale("a", 1), Sale("b", 2)], name="sales").process(SlowCommits())
    sink = SqliteSink(tmp_path / "shop.db", "sales", {"item": "string", "n": "bigint"}, key="item")
    stream.sink(sink, fields=["item", "n"])
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    stream.builder.run_local(seconds=60, guarantee="exactly_once", conf=conf)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        assert database.execute("SELECT item, n FROM sales ORDER BY item").fetchall() == [("a", 1), ("b", 2)]
