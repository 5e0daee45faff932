"""Topologies that are submitted again with other numbers of tasks: their states move to the tasks that need them."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from local_components import Log
from stateful_scene import ALIGNED, FAST, Count, calls, counting, rocksdb, sqlite

from tupletree import KeyedProcess, TopologyBuilder
from tupletree.connectors.files import FileSpout
from tupletree.testing import FeederSpout, LocalCluster

MODES = pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])
WORDS = [f"word {number}" for number in range(40)] + ["ä" * 40, "word 1"]


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


def initial(log, tasks):
    """The entries with which the last tasks began."""
    return [entries for kind, entries in (call for call in log if call[0] == "init")][-tasks:]


def run(cluster, conf, builder, words, rows):
    """Feed rows, and stop when all are in a committed checkpoint."""
    cluster.submit("words", builder.create_topology(), conf)
    for number, row in enumerate(rows):
        words.feed(row, number)
    cluster.wait_until(lambda: len(words.acked) == len(rows))
    cluster.kill("words")


class Divided(Count):
    is_divisible = True


@MODES
@pytest.mark.parametrize(("provider", "states"), [(sqlite, "*.db"), (rocksdb, "shared/*")], ids=["sqlite", "rocksdb"])
def test_counts_go_on_with_more_tasks_and_with_fewer(cluster, tmp_path, conf, provider, states):
    conf = {**conf, **provider(tmp_path)}
    for round_, tasks in enumerate((2, 5, 1, 3)):
        words, log = FeederSpout(["word"]), Log()
        run(cluster, conf, counting(Divided(log), words, tasks), words, [[word] for word in WORDS])
        expected = {word: round_ * number for word, number in Counter(WORDS).items() if round_}
        assert sum(map(Counter, initial(log, tasks)), Counter()) == expected
        assert len(list(tmp_path.glob(states))) == tasks, "states of earlier layouts are removed"


@MODES
def test_keys_of_several_fields_move_by_the_fields_of_the_grouping(cluster, tmp_path, conf):
    class Pairs(Count):
        def execute(self, tup):
            self.counts[tuple(tup.values)] = self.counts.get(tuple(tup.values), 0) + 1
            self.collector.ack(tup)

    conf, pairs = {**conf, **sqlite(tmp_path)}, [[f"u{number % 5}", number % 7] for number in range(70)]
    for round_, tasks in enumerate((3, 4)):
        words, log, builder = FeederSpout(["user", "shop"]), Log(), TopologyBuilder()
        builder.set_spout("words", words)
        builder.set_bolt("count", Pairs(log), tasks).fields_grouping("words", ["user", "shop"])
        run(cluster, conf, builder, words, pairs)
        expected = {pair: 2 * round_ for pair in map(tuple, pairs) if round_}
        assert sum(map(Counter, initial(log, tasks)), Counter()) == expected


def test_a_bolt_with_keys_of_its_own_is_refused_and_the_old_number_goes_on(cluster, tmp_path):
    class Totals(Count):
        def execute(self, tup):
            self.counts["total"] = self.counts.get("total", 0) + 1
            self.collector.ack(tup)

    conf, log = {**FAST, **sqlite(tmp_path)}, Log()
    words = FeederSpout(["word"])
    run(cluster, conf, counting(Totals(), words, 2), words, [[word] for word in WORDS])
    cluster.submit("words", counting(Totals(), FeederSpout(["word"]), 3).create_topology(), conf)
    error = str(cluster.wait_until(lambda: cluster.errors("words"))[0][1])
    assert error.startswith(
        "component 'count' has 3 tasks, and the stored checkpoint was taken with 2; its state cannot be divided, as "
        "key 'total' is in the state of task "
    )
    assert "go back to 2 tasks" in error
    cluster.kill("words")
    words = FeederSpout(["word"])
    run(cluster, conf, counting(Totals(log), words, 2), words, [["a"]])
    assert sum(entries.get("total", 0) for entries in initial(log, 2)) == len(WORDS)


def test_one_task_becomes_several_if_the_bolt_says_that_its_keys_are_those_of_the_grouping(cluster, tmp_path):
    conf = {**FAST, **sqlite(tmp_path)}
    words = FeederSpout(["word"])
    run(cluster, conf, counting(Count(), words, 1), words, [["a"]])
    cluster.submit("words", counting(Count(), FeederSpout(["word"]), 3).create_topology(), conf)
    error = str(cluster.wait_until(lambda: cluster.errors("words"))[0][1])
    assert (
        "key 'a' is possibly none of the grouping's, which one task does not show: set is_divisible = True on Count"
        in error
    )
    cluster.kill("words")
    words, log = FeederSpout(["word"]), Log()
    run(cluster, conf, counting(Divided(log), words, 3), words, [["a"]])
    assert sum(map(Counter, initial(log, 3)), Counter()) == {"a": 1}


class Sessions(KeyedProcess):
    """Emits the number of a user's clicks a minute after the first."""

    key, event_time, max_lag = "user", "at", dt.timedelta(0)
    outputs = ("user", "clicks")
    default_factory = int

    def __init__(self, log):
        self.log = log

    def on_tuple(self, tup, state, timers):
        state.value += 1
        if state.value == 1:
            timers.set(tup["at"] + 60_000)

    def on_timer(self, key, time, state, timers):
        self.log.append((key, state.value, time))
        state.clear()


@MODES
def test_values_and_timers_of_keys_move_together(cluster, tmp_path, conf):
    conf, users, log = {**conf, **sqlite(tmp_path)}, [f"user {number}" for number in range(20)], Log()
    for tasks, at_ms in ((2, 1_000), (5, 2_000), (3, 100_000)):
        clicks, builder = FeederSpout(["user", "at"]), TopologyBuilder()
        builder.set_spout("clicks", clicks)
        builder.set_bolt("sessions", Sessions(log), tasks).fields_grouping("clicks", "user")
        run(cluster, conf, builder, clicks, [[user, at_ms] for user in users])
    assert sorted(set(log)) == sorted((user, 2, 61_000) for user in users)
    assert len(log) == len(users)


class Reads(Count):
    def __init__(self, log, lines):
        super().__init__(log)
        self.lines = lines

    def execute(self, tup):
        self.lines.append(tup["line"])
        self.counts[tup["line"]] = 1
        self.collector.ack(tup)


def test_the_partitions_of_a_log_are_read_on_by_other_tasks(cluster, tmp_path):
    conf, lines = {**ALIGNED, **sqlite(tmp_path / "states")}, Log()
    logs = tmp_path / "logs"
    logs.mkdir()
    written: list[str] = []
    for round_, tasks in enumerate((2, 3, 1)):
        for number in range(4):
            fresh = [f"{number} {round_} {line}" for line in range(25)]
            with (logs / f"{number}.txt").open("a") as file:
                file.writelines(f"{line}\n" for line in fresh)
            written += fresh
        builder, log = TopologyBuilder(), Log()
        builder.set_spout("lines", FileSpout(f"{logs}/*.txt"), tasks)
        builder.set_bolt("count", Reads(log, lines), 2).fields_grouping("lines", "line")
        cluster.submit("words", builder.create_topology(), conf)
        total = len(written)
        cluster.wait_until(lambda total=total: len(lines) >= total)
        before = len(calls(log, "commit"))
        cluster.wait_until(lambda log=log, before=before: len(calls(log, "commit")) >= before + 4)
        cluster.kill("words")
    assert sorted(lines) == sorted(written)
