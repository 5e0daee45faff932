"""The methods that all components share: setup, teardown, tick, and the attributes that are there by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local_components import Keep, Log
from stateful_scene import ALIGNED, FAST, stored

from tupletree import BasicBolt, BasicStatefulBolt, Bolt, CombinerBolt, FailedException, Spout, TopologyBuilder
from tupletree.errors import TopologyError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology
from tupletree.transactional import BatchBolt, TransactionalTopologyBuilder
from tupletree.transactional.memory import MemoryTransactionalSpout
from tupletree.windows import WindowedBolt


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


@pytest.fixture
def clock():
    with LocalCluster(simulated_time=True) as running:
        yield running


TICKS = "topology.tick.tuple.freq.secs"


class Logged:
    def __init__(self, log: Log) -> None:
        self.log = log

    def setup(self: Any) -> None:
        self.log.append(("setup", self.conf["own.key"], self.context.component_id, hasattr(self, "collector")))

    def teardown(self) -> None:
        self.log.append("teardown")


class Lines(Logged, Spout):
    outputs = ("line",)

    def next_tuple(self) -> None:
        pass

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.log.append("open")

    def close(self) -> None:
        self.log.append("close")


class Plain(Logged, Bolt):
    def execute(self, tup: Any) -> None:
        pass

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.log.append("prepare")

    def cleanup(self) -> None:
        self.log.append("cleanup")


class Basic(Logged, BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass

    def prepare(self, conf: Any, context: Any) -> None:
        self.log.append("prepare")

    def cleanup(self) -> None:
        self.log.append("cleanup")


@pytest.mark.parametrize("kind", [Lines, Plain, Basic])
def test_setup_follows_storms_method_and_teardown_precedes_it(kind: Any) -> None:
    log = Log()
    builder = TopologyBuilder()
    name = "it"
    if kind is Lines:
        builder.set_spout(name, Lines(log))
    else:
        builder.set_spout("lines", FeederSpout(["line"]))
        builder.set_bolt(name, kind(log)).shuffle_grouping("lines")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology(), {"own.key": 7})
        cluster.wait_quiet()
    first, last = ("open", "close") if kind is Lines else ("prepare", "cleanup")
    assert log == [first, ("setup", 7, name, True), "teardown", last]


def test_an_attribute_named_conf_of_a_component_is_its_own(cluster: LocalCluster) -> None:
    log = Log()

    class Configured(BasicBolt):
        def __init__(self) -> None:
            self.conf = "mine"  # type: ignore[assignment]

        def execute(self, tup: Any, collector: Any) -> None:
            log.append(self.conf)

    lines = FeederSpout(["line"])
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("configured", Configured()).shuffle_grouping("lines")
    cluster.submit("t", builder.create_topology())
    lines.feed(["a"])
    cluster.wait_quiet()
    assert log == ["mine"]


class TickingBasic(BasicBolt):
    outputs = ("seen",)
    seen = 0

    def execute(self, tup: Any, collector: Any) -> None:
        assert not tup.is_tick
        self.seen += 1

    def tick(self) -> Iterator[list[int]]:
        yield [self.seen]


class TickingBolt(Bolt):
    outputs = ("seen",)
    seen = 0

    def execute(self, tup: Any) -> None:
        assert not tup.is_tick
        self.seen += 1
        self.collector.ack(tup)

    def tick(self) -> None:
        self.collector.emit([self.seen])


class TickingBatches(TickingBolt):
    def execute_batch(self, tuples: Any) -> None:
        for tup in tuples:
            self.execute(tup)


@pytest.mark.parametrize("bolt", [TickingBasic(), TickingBolt(), TickingBatches()])
def test_a_bolt_with_tick_executes_no_tick_tuples(clock: LocalCluster, bolt: Any) -> None:
    lines, log = FeederSpout(["line"]), Log()
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("ticking", bolt).shuffle_grouping("lines").add_configuration(TICKS, 10)
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("ticking")
    clock.submit("t", builder.create_topology())
    for number in range(3):
        lines.feed(["a"], number)
    clock.wait_quiet()
    clock.advance(10)
    clock.wait_quiet()
    assert [values for _, values in log] == [[3]]
    assert sorted(lines.acked) == [0, 1, 2]


class Counts(BasicStatefulBolt):
    outputs = ("word", "count")
    default_factory = int

    def execute(self, tup: Any) -> Iterator[list[Any]]:
        if tup["word"] == "bad":
            raise FailedException("no such word")
        self.state[tup["word"]] += 1
        yield [tup["word"], self.state[tup["word"]]]


@pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])
def test_a_basic_stateful_bolt_acks_anchors_and_fails(cluster: LocalCluster, conf: dict[str, Any]) -> None:
    words, log = FeederSpout(["word"]), Log()
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", Counts()).fields_grouping("words", "word")
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("count")
    cluster.submit("words", builder.create_topology(), conf)
    for number, word in enumerate("abab"):
        words.feed([word], number)
    cluster.wait_until(lambda: sorted(words.acked) == [0, 1, 2, 3])
    assert [values for _, values in log] == [["a", 1], ["b", 1], ["a", 2], ["b", 2]]
    words.feed(["bad"], "bad")
    cluster.wait_until(lambda: words.failed == ["bad"])
    assert log[4:] == []


def test_the_counts_of_a_basic_stateful_bolt_are_saved(cluster: LocalCluster, tmp_path: Any) -> None:
    conf = {**FAST, "topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(tmp_path)}}
    words = FeederSpout(["word"])
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", Counts()).fields_grouping("words", "word")
    cluster.submit("words", builder.create_topology(), conf)
    for number, word in enumerate("aab"):
        words.feed([word], number)
    cluster.wait_until(lambda: len(words.acked) == 3)
    cluster.kill("words")
    assert stored(conf) == {"a": 2, "b": 1}


def test_a_basic_stateful_bolt_in_the_middle_makes_trees_complete_only_with_its_children(cluster: LocalCluster) -> None:
    words, log = FeederSpout(["word"]), Log()

    class Hold(Bolt):
        def execute(self, tup: Any) -> None:
            log.append(tup)

    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", Counts()).fields_grouping("words", "word")
    builder.set_bolt("hold", Hold()).shuffle_grouping("count")
    cluster.submit("words", builder.create_topology(), FAST)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: len(log) == 1)
    assert len(log[0].anchors) == 1 and words.acked == []


class Summing(BatchBolt):
    outputs = ("sum",)

    def setup(self) -> None:
        self.sum = 0

    def execute(self, tup: Any) -> None:
        self.sum += tup["number"]

    def finish_batch(self) -> None:
        self.collector.emit([self.sum])


def test_a_batch_bolt_is_set_up_for_each_batch() -> None:
    log = Log()

    class Sink(BasicBolt):
        def setup(self) -> None:
            log.append("setup")

        def execute(self, tup: Any, collector: Any) -> None:
            log.append(tup["sum"])

    spout = MemoryTransactionalSpout([[[1], [2], [3], [4]]], ["number"], 2)
    builder = TransactionalTopologyBuilder("sums", "numbers", spout)
    builder.set_bolt("sum", Summing()).global_grouping("numbers")
    builder.set_bolt("sink", Sink()).global_grouping("sum")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: len(log) == 3)
    assert log == ["setup", 3, 7]


def refused(bolt: Any) -> str:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"]))
    with pytest.raises(TopologyError) as caught:
        builder.set_bolt("it", bolt)
    return str(caught.value)


def test_a_method_that_would_never_be_called_is_refused() -> None:
    def tick(self: Any) -> None:
        pass

    window = type("Sales", (WindowedBolt,), {"tick": tick})().with_tumbling_window(3)
    assert refused(window) == "bolt 'it': Sales.tick is never called: a WindowedBolt ends windows at ticks"
    combiner = type("Words", (CombinerBolt,), {"tick": tick})()
    assert refused(combiner) == "bolt 'it': Words.tick is never called: a CombinerBolt emits at ticks"
    batches = type("Counts", (BasicStatefulBolt,), {"execute_batch": lambda self, tuples: None})()
    assert (
        refused(batches) == "bolt 'it': Counts.execute_batch is never called: a basic bolt executes one tuple at a time"
    )
    batch = type("Sums", (BatchBolt,), {"teardown": tick})()
    builder = TransactionalTopologyBuilder("t", "numbers", MemoryTransactionalSpout([[[1]]], ["number"], 1))
    with pytest.raises(TopologyError, match="teardown is never called: the object of a batch is dropped without"):
        builder.set_bolt("sum", batch)


def test_a_setup_that_cannot_run_is_refused() -> None:
    async def setup(self: Any) -> None:
        pass

    assert "Waits.setup is 'async def', and nothing awaits it" in refused(
        type("Waits", (BasicBolt,), {"setup": setup})()
    )


def test_a_topology_of_such_bolts_can_be_completed() -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("count", Counts()).fields_grouping("words", "word")
    topology = builder.create_topology()
    assert complete_topology(topology, {"words": [["a"], ["a"]]})["count"] == [["a", 1], ["a", 2]]
