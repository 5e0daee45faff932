"""BatchingBolt: tuples are gathered, and acked or failed together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local_components import Keep, Log
from stateful_scene import ALIGNED, Count

from tupletree import BatchingBolt, CombinerBolt, FailedException, TopologyBuilder
from tupletree.errors import TopologyError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology


class Gather(BatchingBolt):
    outputs = ("n", "size")
    max_batch = 4
    max_wait_s = 1

    def __init__(self, log: Log) -> None:
        self.log = log

    def execute_batch(self, tuples: list[Any]) -> None:
        self.log.append([tup["n"] for tup in tuples])
        for tup in tuples:
            if tup["n"] == "bad":
                self.collector.fail(tup, "no")
            elif tup["n"] == "worst":
                raise FailedException("none of them")
            else:
                self.collector.emit([tup["n"], len(tuples)], tup)


class Scene:
    def __init__(self, cluster: LocalCluster, bolt: Any = None, conf: Any = None) -> None:
        self.cluster, self.log, self.kept = cluster, Log(), Log()
        self.numbers = FeederSpout(["n"])
        builder = TopologyBuilder()
        builder.set_spout("numbers", self.numbers)
        builder.set_bolt("gather", bolt or Gather(self.log)).shuffle_grouping("numbers")
        builder.set_bolt("sink", Keep(self.kept)).shuffle_grouping("gather")
        cluster.submit("t", builder.create_topology(), conf)

    def feed(self, *numbers: Any) -> None:
        for number in numbers:
            self.numbers.feed([number], number)
            self.cluster.wait_quiet()


class Sums(CombinerBolt):
    outputs = ("n", "size")

    def key_values(self, tup: Any) -> Any:
        return [(tup["n"], 1)]


@pytest.mark.parametrize("base", [Gather, Sums])
def test_a_configuration_of_its_own_does_not_take_a_bolt_its_ticks(cluster: LocalCluster, base: Any) -> None:
    class Configured(base):  # type: ignore[misc]
        def component_configuration(self) -> dict[str, Any]:
            return {"shop.country": "de"}

    scene = Scene(cluster, Configured(*[Log()] * (base is Gather)))
    scene.feed(1)
    cluster.advance(1)
    cluster.wait_quiet()
    assert scene.numbers.acked == [1] and [values for _, values in scene.kept] == [[1, 1]]


def test_a_full_batch_is_processed_at_once_and_a_smaller_one_in_time(cluster: LocalCluster) -> None:
    scene = Scene(cluster)
    scene.feed(*range(6))
    assert scene.log == [[0, 1, 2, 3]] and sorted(scene.numbers.acked) == [0, 1, 2, 3]
    assert [values for _, values in scene.kept] == [[number, 4] for number in range(4)]
    cluster.advance(1)
    cluster.wait_quiet()
    assert scene.log == [[0, 1, 2, 3], [4, 5]] and sorted(scene.numbers.acked) == list(range(6))
    cluster.advance(5)
    cluster.wait_quiet()
    assert len(scene.log) == 2, "there are no empty batches"


def test_one_tuple_of_a_batch_fails_alone(cluster: LocalCluster) -> None:
    scene = Scene(cluster)
    scene.feed(0, "bad", 2, 3)
    assert (sorted(scene.numbers.acked), scene.numbers.failed) == ([0, 2, 3], ["bad"])


def test_failed_exception_fails_the_whole_batch(cluster: LocalCluster) -> None:
    scene = Scene(cluster)
    scene.feed(0, "bad", "worst", 3)
    assert scene.numbers.acked == [] and set(scene.numbers.failed) == {0, "bad", "worst", 3}
    scene.feed(4, 5, 6, 7)
    assert sorted(scene.numbers.acked) == [4, 5, 6, 7]


def test_yielded_rows_are_anchored_to_all_tuples(cluster: LocalCluster) -> None:
    class Total(BatchingBolt):
        outputs = ("total",)
        max_batch = 3

        def execute_batch(self, tuples: list[Any]) -> Iterator[list[int]]:
            yield [sum(tup["n"] for tup in tuples)]

    anchors = Log()

    class Hold(Keep):
        def execute(self, tup: Any) -> None:
            anchors.append(len(tup.anchors))

    numbers = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("total", Total()).shuffle_grouping("numbers")
    builder.set_bolt("sink", Hold(Log())).shuffle_grouping("total")
    cluster.submit("t", builder.create_topology())
    for number in range(3):
        numbers.feed([number], number)
    cluster.wait_quiet()
    assert anchors == [3] and numbers.acked == []


def test_a_checkpoint_waits_for_what_was_gathered() -> None:
    with LocalCluster() as cluster:
        log, words = Log(), FeederSpout(["n"])
        builder = TopologyBuilder()
        builder.set_spout("words", words)
        gather = type("Soon", (Gather,), {"max_wait_s": 0.05})(log)
        builder.set_bolt("gather", gather).shuffle_grouping("words")
        count = type("CountN", (Count,), {"execute": lambda self, tup: self.collector.ack(tup)})()
        builder.set_bolt("count", count).fields_grouping("gather", "n")
        cluster.submit("t", builder.create_topology(), ALIGNED)
        for number in range(6):
            words.feed([number], number)
        cluster.wait_until(lambda: sorted(words.acked) == list(range(6)))
        assert words.failed == []


def test_it_is_completed_with_a_smaller_batch_at_the_end() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n"]))
    builder.set_bolt("gather", Gather(Log())).shuffle_grouping("numbers")
    found = complete_topology(builder.create_topology(), {"numbers": [[number] for number in range(5)]})
    assert sorted(found["gather"]) == [[0, 4], [1, 4], [2, 4], [3, 4], [4, 1]]


@pytest.mark.parametrize("setting", [{"max_batch": 0}, {"max_batch": 1.5}, {"max_wait_s": 0}])
def test_settings_are_checked(setting: dict[str, Any]) -> None:
    kind = type("Mine", (Gather,), setting)
    with pytest.raises(TopologyError, match="bolt 'gather': Mine: max_batch must be a whole number of at least 1"):
        TopologyBuilder().set_bolt("gather", kind(Log()))


def test_execute_is_refused() -> None:
    kind = type("Mine", (Gather,), {"execute": lambda self, tup: None})
    with pytest.raises(TopologyError, match=r"bolt 'gather': Mine\.execute is never called: define execute_batch"):
        TopologyBuilder().set_bolt("gather", kind(Log()))
