"""Groupings as a topology's author sees them: declared on the builder, effective at the tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from local_components import Do, DoBasic, Keep, Log

from tupletree import TopologyBuilder
from tupletree.declarer import BoltDeclarer
from tupletree.errors import TaskFailedError
from tupletree.grouping import CustomGrouping
from tupletree.outputs import direct
from tupletree.testing import FeederSpout, LocalCluster

WORDS = [f"word{number % 7}" for number in range(70)]


def received(
    cluster: LocalCluster, group: Callable[[BoltDeclarer], Any], tasks: int = 4, spouts: int = 1
) -> dict[int, list[str]]:
    """The words that each task of a bolt receives when they are grouped so; all of them must be acked."""
    log = Log()
    feeder = FeederSpout(["n", "word"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, spouts)
    group(builder.set_bolt("bolt", Keep(log), tasks))
    for number, word in enumerate(WORDS):
        feeder.feed([number, word], number)
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(feeder.acked) == list(range(len(WORDS)))
    by_task: dict[int, list[str]] = defaultdict(list)
    for task, (_, word) in log:
        by_task[task].append(word)
    return by_task


@pytest.mark.parametrize("name", ["shuffle_grouping", "none_grouping", "local_or_shuffle_grouping"])
def test_shuffle_none_and_local_or_shuffle_are_even(cluster: LocalCluster, name: str) -> None:
    by_task = received(cluster, lambda bolt: getattr(bolt, name)("spout"))
    assert sorted(map(len, by_task.values())) == [17, 17, 18, 18]


def test_fields_grouping_sends_equal_words_to_one_task_from_every_spout_task(cluster: LocalCluster) -> None:
    by_task = received(cluster, lambda bolt: bolt.fields_grouping("spout", ["word"]), spouts=3)
    owners = [task for task, words in by_task.items() for _ in set(words)]
    assert len(owners) == 7
    assert sum(map(len, by_task.values())) == 70


def test_partial_key_grouping_sends_each_word_to_two_tasks_at_most(cluster: LocalCluster) -> None:
    by_task = received(cluster, lambda bolt: bolt.partial_key_grouping("spout", ["word"]), spouts=2)
    owners = Counter(word for words in by_task.values() for word in set(words))
    assert set(owners) == set(WORDS)
    assert max(owners.values()) <= 2


def test_global_grouping_sends_everything_to_the_task_with_the_lowest_id(cluster: LocalCluster) -> None:
    by_task = received(cluster, lambda bolt: bolt.global_grouping("spout"))
    assert {task: len(words) for task, words in by_task.items()} == {1: 70}


def test_all_grouping_sends_a_copy_to_every_task(cluster: LocalCluster) -> None:
    by_task = received(cluster, lambda bolt: bolt.all_grouping("spout"))
    assert {task: words for task, words in by_task.items()} == dict.fromkeys(range(1, 5), WORDS)


class ByNumber(CustomGrouping):
    """Even numbers to the first task and the last one, odd numbers to none; remembers how it was prepared."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def prepare(self, context: Any, stream: str, target_tasks: Sequence[int]) -> None:
        self.targets = target_tasks
        self.log.append((context.component_id, context.task_id, stream, list(target_tasks)))

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [] if values[0] % 2 else [self.targets[0], self.targets[-1]]


def test_custom_grouping_chooses_any_number_of_tasks_and_none_is_acked_at_once(cluster: LocalCluster) -> None:
    prepared = Log()
    by_task = received(cluster, lambda bolt: bolt.custom_grouping("spout", ByNumber(prepared)), spouts=2)
    even = [word for number, word in enumerate(WORDS) if number % 2 == 0]
    assert {task: sorted(words) for task, words in by_task.items()} == {1: sorted(even), 4: sorted(even)}
    assert sorted(prepared) == [("spout", task, "default", [1, 2, 3, 4]) for task in (5, 6)]


class Stray(CustomGrouping):
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [task_id]


def test_custom_grouping_that_chooses_a_stranger_ends_the_topology(cluster: LocalCluster) -> None:
    with pytest.raises(TaskFailedError, match=r"'spout' failed: EmitError: .*'default'.*'spout' chose task 5"):
        received(cluster, lambda bolt: bolt.custom_grouping("spout", Stray()))


def test_direct_streams_reach_the_task_that_the_emitter_names(cluster: LocalCluster) -> None:
    """A bolt deals out numbers to the tasks of another, by hand, anchored."""
    log = Log()
    feeder = FeederSpout(["n"])

    def deal(tup: Any, collector: Any) -> None:
        targets = collector._task.context.component_tasks("hands")
        collector.emit_direct(targets[tup[0] % len(targets)], [tup[0]], stream="cards")

    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("dealer", DoBasic(deal, {"cards": direct(["n"])})).shuffle_grouping("spout")
    builder.set_bolt("hands", Keep(log), 3).direct_grouping("dealer", "cards")
    for number in range(30):
        feeder.feed([number], number)
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    tasks = sorted({task for task, _ in log})
    assert len(tasks) == 3
    assert all(task == tasks[number % 3] for task, [number] in log)
    assert sorted(feeder.acked) == list(range(30))


def test_a_direct_emit_of_a_hand_anchoring_bolt_is_part_of_the_tree(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])

    def deal(tup: Any, collector: Any) -> None:
        [target] = collector._task.context.component_tasks("hand")
        collector.emit_direct(target, [tup[0]], anchors=tup)
        collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("dealer", Do(deal, {"default": direct(["n"])})).shuffle_grouping("spout")
    builder.set_bolt("hand", Do(lambda tup, collector: collector.fail(tup))).direct_grouping("dealer")
    feeder.feed([1], "a")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert (feeder.acked, feeder.failed) == ([], ["a"])


def test_streams_of_one_component_are_grouped_apart(cluster: LocalCluster) -> None:
    """One bolt, two streams of one source: one grouped by word, one to all; sources tell them apart."""
    log = Log()

    def note(tup: Any, collector: Any) -> None:
        log.append((tup.source_component, tup.source_stream, tup.fields, tuple(tup.values)))

    feeder = FeederSpout({"default": ["word"], "orders": ["order", "at"]})
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    bolt = builder.set_bolt("bolt", DoBasic(note), 2)
    bolt.fields_grouping("spout", ["word"]).all_grouping("spout", "orders")
    feeder.feed(["a"], 1)
    feeder.feed(["stop", 7], 2, stream="orders")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(log) == [
        ("spout", "default", ("word",), ("a",)),
        ("spout", "orders", ("order", "at"), ("stop", 7)),
        ("spout", "orders", ("order", "at"), ("stop", 7)),
    ]
    assert sorted(feeder.acked) == [1, 2]


def test_the_context_of_a_task_tells_where_it_stands(cluster: LocalCluster) -> None:
    contexts = Log()

    class Contextual(Keep):
        def prepare(self, conf: Any, context: Any, collector: Any) -> None:
            self.collector = collector
            contexts.append(
                (context.task_id, context.task_index, context.component_id, context.sources, context.targets)
            )
            assert context.conf["my.key"] == "mine"
            assert context.component_tasks("spout") == [4, 5]

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n", "word"]), 2)
    bolt = builder.set_bolt("bolt", Contextual(Log()), 3).fields_grouping("spout", ["word"])
    bolt.add_configuration("my.key", "mine")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(contexts) == [(i + 1, i, "bolt", {("spout", "default"): "fields"}, {}) for i in range(3)]
