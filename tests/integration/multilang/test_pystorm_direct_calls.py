"""Direct emits and acks of hosted components: the same results as by messages, for all that pystorm's methods do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pystorm_programs as programs
import pytest
from pystorm import BatchingBolt, Bolt, ReliableSpout, TicklessBatchingBolt
from pystorm.spout import Spout

from tupletree import TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.multilang import PystormBolt, PystormSpout
from tupletree.multilang.direct_calls import mixins_of_bolt, mixins_of_spout, origin_of
from tupletree.testing import FeederSpout, LocalCluster

pytestmark = pytest.mark.long


class Anchoring(Bolt):
    """Emits with all kinds of anchors, and keeps what emit returns."""

    outputs = ("what", "returned")
    auto_ack = False

    def initialize(self, conf: Any, context: Any) -> None:
        self.held: list[Any] = []

    def process(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) < 3:
            return
        first, second, third = self.held
        returned = [
            self.emit(("auto", None)),
            self.emit(["by tuples", None], anchors=[first, second]),
            self.emit(["by ids", None], anchors=[first.id, third.id]),
            self.emit(["by a tuple of them", None], anchors=(second,)),
            self.emit(["none", None], anchors=[]),
            self.emit(["tasks", None], need_task_ids=True),
            self.emit(["stream", None], stream="default"),
        ]
        self.emit(["kinds", [type(one).__name__ for one in returned]])
        self.ack(first)
        self.ack(second.id)
        self.ack(second)
        self.fail(third)


class Ticking(Bolt):
    """Emits at ticks, which have no tree."""

    outputs = ("what", "returned")
    config = {"topology.tick.tuple.freq.secs": 1}
    done = False

    def process(self, tup: Any) -> None:
        self.emit([tup.values.word, tup._fields == ("id", "component", "stream", "task", "values")])

    def process_tick(self, tup: Any) -> None:
        if not self.done:
            self.done = True
            self.emit([tup.component, tup.task])


class ReturningBatches(BatchingBolt):
    outputs = ("what", "returned")
    config = {"topology.tick.tuple.freq.secs": 1}
    ticks_between_batches = 0

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        for tup in tups:
            self.emit([tup.values[0], self.emit(["inner", None], need_task_ids=True)], anchors=[tup])


class Named(Bolt):
    """Has attributes with the names that one would give to what hosts it."""

    outputs = ("what", "returned")

    def initialize(self, conf: Any, context: Any) -> None:
        self._inputs, self._collector, self._messages, self.next_one = {}, [], [], 0  # type: ignore[var-annotated]

    def process(self, tup: Any) -> None:
        self._collector.append(tup)
        self.emit([tup.values[0], len(self._inputs)])


class ByMessages:
    """What makes a class use messages: it has its own emit and ack, and its own way to read."""

    def emit(self, *arguments: Any, **named: Any) -> Any:
        return super().emit(*arguments, **named)  # type: ignore[misc]

    def ack(self, *arguments: Any) -> Any:
        return super().ack(*arguments)  # type: ignore[misc]

    def read_tuple(self) -> Any:
        return super().read_tuple()  # type: ignore[misc]


def by_messages(cls: type) -> type:
    return type(cls.__name__, (ByMessages, cls), {})


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def outcome(cluster: LocalCluster, cls: type, rows: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Feed three words; return what the bolt emits, and which words are acked and failed."""
    words, emitted = FeederSpout(["word"]), []
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("bolt", PystormBolt(cls)).shuffle_grouping("words")

    def note(component: str, stream: str, values: Any) -> None:
        if component == "bolt":
            emitted.append(tuple(values))

    cluster.submit("words", builder.create_topology(), observer=note)
    for number, word in enumerate(["a", "b", "c"]):
        words.feed([word], number)
    cluster.wait_until(lambda: len(words.acked) + len(words.failed) == 3 and len(emitted) >= rows, 30)
    return sorted(emitted, key=str), sorted(words.acked), sorted(words.failed)


@pytest.mark.parametrize(
    ("cls", "rows"),
    [(Anchoring, 8), (Ticking, 4), (ReturningBatches, 6), (Named, 3), (programs.Failing, 3), (programs.Tickless, 3)],
)
@pytest.mark.parametrize("way", ["direct", "by messages"])
def test_a_bolt_does_the_same_on_both_ways(cluster: LocalCluster, cls: type, rows: int, way: str) -> None:
    expected: dict[type, Any] = {
        Anchoring: (
            [(what, None) for what in ("auto", "by a tuple of them", "by ids", "by tuples", "none", "stream", "tasks")]
            + [("kinds", ["NoneType"] * 5 + ["list", "NoneType"])],
            [0, 1],
            [2],
        ),
        Ticking: ([("__system", -1), ("a", True), ("b", True), ("c", True)], [0, 1, 2], []),
        ReturningBatches: ([("a", None), ("b", None), ("c", None), *[("inner", None)] * 3], [0, 1, 2], []),
        Named: ([("a", 0), ("b", 0), ("c", 0)], [0, 1, 2], []),
        programs.Failing: ([("a",), ("b",), ("c",)], [0, 1, 2], []),
        programs.Tickless: ([("a", 1), ("b", 1), ("c", 1)], [0, 1, 2], []),
    }
    rows_, acked, failed = expected[cls]
    found = outcome(cluster, cls if way == "direct" else by_messages(cls), rows)
    assert found == (sorted(rows_, key=str), acked, failed)


class EmittingText(Bolt):
    outputs = ("word",)

    def process(self, tup: Any) -> None:
        self.emit("text")


class EmittingLate(Bolt):
    outputs = ("word",)
    auto_ack = False

    def process(self, tup: Any) -> None:
        self.ack(tup)
        self.emit(["late"])


@pytest.mark.parametrize(
    ("cls", "told"),
    [
        (EmittingText, r"All Tuples must be either lists or tuples, received <class 'str'>"),
        (EmittingLate, r"it anchors to a tuple that it has acked or failed, or never got"),
    ],
)
@pytest.mark.parametrize("way", ["direct", "by messages"])
def test_a_wrong_emit_is_refused_on_both_ways(cluster: LocalCluster, cls: type, told: str, way: str) -> None:
    with pytest.raises(TaskFailedError, match=told):
        outcome(cluster, cls if way == "direct" else by_messages(cls), 9)


class Numbers(ReliableSpout):
    """Emits two tuples by each call; the second has what the first emit returned."""

    outputs = ("number", "returned")
    number = 0

    def next_tuple(self) -> None:
        if self.number < 2:
            self.number += 1
            tasks = self.emit((self.number, None), tup_id=self.number, need_task_ids=True)
            nothing = self.emit([self.number, [type(one).__name__ for one in tasks]], -self.number)
            assert nothing is None


class Sink(Bolt):
    def process(self, tup: Any) -> None:
        pass


class Untracked(ReliableSpout):
    outputs = ("number",)

    def next_tuple(self) -> None:
        self.emit([1])


@pytest.mark.parametrize("way", ["direct", "by messages"])
def test_a_spout_does_the_same_on_both_ways(cluster: LocalCluster, way: str) -> None:
    emitted: list[Any] = []
    cls = Numbers if way == "direct" else by_messages(Numbers)
    builder = TopologyBuilder()
    builder.set_spout("numbers", PystormSpout(cls))
    builder.set_bolt("sink", PystormBolt(Sink)).shuffle_grouping("numbers")
    cluster.submit("numbers", builder.create_topology(), observer=lambda *told: emitted.append(tuple(told[2])))
    cluster.wait_until(lambda: cluster.counts("numbers")["numbers"].acked == 4)
    assert emitted == [(1, None), (1, ["int"]), (2, None), (2, ["int"])]
    builder = TopologyBuilder()
    builder.set_spout("numbers", PystormSpout(Untracked if way == "direct" else by_messages(Untracked)))
    with pytest.raises(TaskFailedError, match=r"You must provide a tuple ID"):
        cluster.submit("untracked", builder.create_topology())
        cluster.wait_until(lambda: False)


def test_direct_calls_stand_only_in_place_of_methods_of_pystorm() -> None:
    assert [one.__name__ for one in mixins_of_bolt(programs.WordCountBolt)] == ["BoltEmits", "BoltAcks"]
    assert [one.__name__ for one in mixins_of_bolt(programs.Batches)] == ["BatchingEmits", "BoltAcks"]
    assert [one.__name__ for one in mixins_of_spout(programs.WordSpout)] == ["ReliableEmits"]
    assert [one.__name__ for one in mixins_of_spout(programs.PlainSpout)] == ["SpoutEmits"]
    assert mixins_of_bolt(by_messages(programs.WordCountBolt)) == mixins_of_spout(by_messages(Numbers)) == []
    assert {cls: origin_of(cls, "_run") for cls in (Bolt, BatchingBolt, TicklessBatchingBolt, Spout)} == {
        Bolt: "Bolt",
        BatchingBolt: "BatchingBolt",
        TicklessBatchingBolt: "TicklessBatchingBolt",
        Spout: "Spout",
    }
    assert origin_of(by_messages(programs.WordCountBolt), "read_tuple") == ""
    assert origin_of(Bolt, "missing") == ""
