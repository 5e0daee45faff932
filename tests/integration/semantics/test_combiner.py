"""A combiner in front of a fields grouping: what it sends, and when its inputs are acked."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from local_components import Latch, Log
from scene import Holding, numbered
from several_workers import SeveralWorkers

from tupletree import BasicBolt, Bolt, CombinerBolt, Spout, Topology, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster, complete_topology, wait_until

LINES = ["the cat and the dog", "the dog", "a cat", "and and and"]
TRUTH = Counter(" ".join(LINES).split())


class Words(CombinerBolt):
    """Counts words by a call for each."""

    outputs = ("word", "count")

    def __init__(self, held: int = 1000) -> None:
        self.held = held
        self.interval_s = 1.0

    def key_values(self, tup: Any) -> Iterable[tuple[str, int]]:
        return [(word, 1) for word in tup["line"].split()]


class FastWords(Words):
    """Counts words by calls of C code."""

    def empty(self) -> Counter[str]:
        return Counter()

    def add(self, partials: dict[str, int], tuples: Sequence[Any]) -> None:
        for tup in tuples:
            partials.update(Counter(tup["line"].split()))


class AddUp(Bolt):
    """Keeps (task, word, count) in a log; fails everything while told to."""

    def __init__(self, log: Log, fails: Latch | None = None) -> None:
        self.log, self.fails = log, fails

    def execute(self, tup: Any) -> None:
        if self.fails is not None and self.fails.is_set():
            self.collector.fail(tup)
        else:
            self.log.append((self.context.task_id, *tup.values))
            self.collector.ack(tup)


class Replaying(Spout):
    """Emits each line until it is acked."""

    outputs = ("line",)

    def __init__(self, lines: Iterable[str], acked: Log, failed: Log) -> None:
        self.waiting = deque(enumerate(lines))
        self.lines = list(lines)
        self.acked, self.failed = acked, failed

    def next_tuple(self) -> None:
        if self.waiting:
            number, line = self.waiting.popleft()
            self.collector.emit([line], number)

    def ack(self, msg_id: Any) -> None:
        self.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.failed.append(msg_id)
        self.waiting.append((msg_id, self.lines[msg_id]))


def counted(log: Iterable[tuple[int, str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, word, count in log:
        counts[word] += count
    return counts


def words(spout: Spout, combiner: CombinerBolt, sink: Bolt | BasicBolt, tasks: int = 2) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", spout)
    builder.set_bolt("words", combiner, tasks).shuffle_grouping("lines")
    builder.set_bolt("sink", sink, tasks).fields_grouping("words", ["word"])
    return builder.create_topology()


@pytest.mark.parametrize("combiner", [Words(), FastWords()])
def test_each_task_sends_each_word_once_with_its_count_at_a_tick(combiner: CombinerBolt) -> None:
    topology = words(FeederSpout(["line"]), combiner, AddUp(Log()), tasks=1)
    emitted = complete_topology(topology, {"lines": [[line] for line in LINES]})
    assert sorted(emitted["words"]) == sorted([word, count] for word, count in TRUTH.items())


class Again(CombinerBolt):
    """Combines what was combined."""

    outputs = ("word", "count")
    interval_s = 1.0

    def key_values(self, tup: Any) -> Iterable[tuple[str, int]]:
        return [(tup["word"], tup["count"])]


def test_combiners_in_a_row_are_all_completed() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"]))
    builder.set_bolt("words", Words(), 2).shuffle_grouping("lines")
    builder.set_bolt("all", Again()).fields_grouping("words", ["word"])
    emitted = complete_topology(builder.create_topology(), {"lines": [[line] for line in LINES]})
    assert sorted(emitted["all"]) == sorted([word, count] for word, count in TRUTH.items())


def test_counts_are_exact_and_each_word_is_counted_by_one_task(cluster: LocalCluster) -> None:
    log, feeder = Log(), FeederSpout(["line"])
    cluster.submit("t", words(feeder, Words(held=3), AddUp(log)))
    rng = random.Random(1)
    lines = [" ".join(rng.choices("abcdefgh", k=5)) for _ in range(200)]
    for number, line in enumerate(lines):
        feeder.feed([line], number)
    cluster.wait_quiet()
    cluster.advance(1)
    cluster.wait_quiet()
    assert counted(log) == Counter(" ".join(lines).split())
    assert len({(task, word) for task, word, _ in log}) == len({word for _, word, _ in log})
    assert sorted(feeder.acked) == list(range(200))


def test_enough_inputs_are_sent_without_a_tick_and_fewer_wait_for_it(cluster: LocalCluster) -> None:
    log, feeder = Log(), FeederSpout(["line"])
    cluster.submit("t", words(feeder, Words(held=2), AddUp(log), tasks=1))
    for number, line in enumerate(LINES[:3]):
        feeder.feed([line], number)
        cluster.wait_quiet()
    assert (counted(log), feeder.acked) == (Counter(" ".join(LINES[:2]).split()), [0, 1])
    cluster.advance(1)
    cluster.wait_quiet()
    assert (counted(log), feeder.acked) == (Counter(" ".join(LINES[:3]).split()), [0, 1, 2])


def test_ticks_send_what_is_held_though_the_topology_was_deactivated(cluster: LocalCluster) -> None:
    log, feeder = Log(), FeederSpout(["line"])
    cluster.submit("t", words(feeder, Words(), AddUp(log)))
    for number, line in enumerate(LINES):
        feeder.feed([line], number)
    cluster.wait_quiet()
    cluster.deactivate("t")
    cluster.advance(1)
    cluster.wait_quiet()
    assert (counted(log), sorted(feeder.acked)) == (TRUTH, [0, 1, 2, 3])


def test_inputs_are_acked_only_after_all_that_was_made_of_them_was_processed(cluster: LocalCluster) -> None:
    feeder, orders, held = FeederSpout(["line"]), FeederSpout(["order"]), Log()
    builder = TopologyBuilder()
    builder.set_spout("lines", feeder)
    builder.set_spout("orders", orders)
    builder.set_bolt("words", Words(held=2)).shuffle_grouping("lines")
    builder.set_bolt("sink", Holding(held)).fields_grouping("words", ["word"]).global_grouping("orders")
    cluster.submit("t", builder.create_topology())
    feeder.feed(["a b"], 1)
    feeder.feed(["b c"], 2)
    cluster.wait_quiet()
    assert sorted(tup.values for tup in held) == [["a", 1], ["b", 2], ["c", 1]]
    for acked in (0, 1, 2):
        assert feeder.acked == []
        orders.feed([numbered(lambda tuples, collector, at=acked: collector.ack(tuples[at]))])
        cluster.wait_quiet()
    assert (sorted(feeder.acked), feeder.failed) == ([1, 2], [])


def test_an_output_that_fails_fails_its_inputs_and_they_are_replayed(cluster: LocalCluster) -> None:
    log, acked, failed, fails = Log(), Log(), Log(), Latch()
    fails.set()
    cluster.submit("t", words(Replaying(LINES, acked, failed), Words(), AddUp(log, fails)))
    cluster.wait_quiet()
    cluster.advance(1)
    cluster.wait_quiet()
    assert (list(acked), sorted(failed), list(log)) == ([], [0, 1, 2, 3], [])
    fails.clear()
    cluster.advance(1)
    cluster.wait_quiet()
    assert (sorted(acked), len(failed), counted(log)) == ([0, 1, 2, 3], 4, TRUTH)


def test_what_nobody_acks_times_out_with_its_inputs(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["line"])
    sink = Holding(Log())
    cluster.submit("t", words(feeder, Words(), sink), {"topology.message.timeout.secs": 5})
    feeder.feed(["a b"], 1)
    cluster.wait_quiet()
    cluster.advance(12)
    cluster.wait_quiet()
    assert (feeder.acked, feeder.failed) == ([], [1])


@pytest.mark.parametrize(("conf", "msg_id"), [({"topology.acker.executors": 0}, 1), ({}, None)])
def test_untracked_inputs_are_just_combined(cluster: LocalCluster, conf: dict[str, Any], msg_id: Any) -> None:
    log, feeder = Log(), FeederSpout(["line"])
    cluster.submit("t", words(feeder, Words(), AddUp(log)), conf)
    for line in LINES:
        feeder.feed([line], msg_id)
    cluster.wait_quiet()
    cluster.advance(1)
    cluster.wait_quiet()
    assert (counted(log), feeder.failed) == (TRUTH, [])


def test_inputs_of_several_trees_are_acked_for_each(cluster: LocalCluster) -> None:
    """In front of the combiner, a combiner: each of its tuples is of one tree, whatever went into it."""

    class Again(Words):
        def key_values(self, tup: Any) -> Iterable[tuple[str, int]]:
            return [(tup["word"], tup["count"])]

    log, feeder = Log(), FeederSpout(["line"])
    builder = TopologyBuilder()
    builder.set_spout("lines", feeder)
    builder.set_bolt("words", Words(held=2), 2).shuffle_grouping("lines")
    builder.set_bolt("again", Again(held=3), 2).shuffle_grouping("words")
    builder.set_bolt("sink", AddUp(log), 2).fields_grouping("again", ["word"])
    cluster.submit("t", builder.create_topology())
    for number, line in enumerate(LINES):
        feeder.feed([line], number)
    cluster.wait_quiet()
    cluster.advance(1)
    cluster.wait_quiet()
    assert (counted(log), sorted(feeder.acked)) == (TRUTH, [0, 1, 2, 3])


@pytest.mark.parametrize("seed", range(4))
def test_several_workers_count_exactly_and_ack_everything(seed: int) -> None:
    acked, failed, log = Log(), Log(), Log()
    lines = [" ".join(random.Random(seed).choices("abcdefgh", k=5)) for _ in range(500)]
    topology = words(Replaying(lines, acked, failed), Words(held=20), AddUp(log), tasks=3)
    conf = {
        "topology.acker.executors": 2,
        "topology.max.spout.pending": 100,
        "topology.message.timeout.secs": 1_000_000,
        "topology.transfer.batch.size": 16,
    }
    with SeveralWorkers(topology, conf, 3, seed) as workers:

        def is_done() -> bool:
            workers.now_s += 0.5
            workers.look_after()
            return len(acked) == len(lines)

        wait_until(is_done, 30, what="everything is acked")
    assert (counted(log), list(failed), workers.failures) == (Counter(" ".join(lines).split()), [], [])
