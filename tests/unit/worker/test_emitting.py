"""What emit returns and takes, and a spout that emits while it is told how trees ended."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic, Log

from tupletree import Spout, TopologyBuilder
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.execution.spout_executor import SpoutExecutor


class Given(Spout):
    """Makes one call with its collector."""

    outputs = {"default": ["word", "n"], "unheard": ["n"]}

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call: Callable[[Any], Any] | None = call
        self.returned = Log()

    def next_tuple(self) -> None:
        if self.call is not None:
            call, self.call = self.call, None
            self.returned.append(call(self.collector))


def driven(spout: Spout) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("all", Do(), 3).all_grouping("spout")
    builder.set_bolt("one", Do(), 2).fields_grouping("spout", ["word"])
    return HandDriven(builder.create_topology())


def task_of(hand: HandDriven) -> SpoutTask:
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    task = executor.tasks[0]
    assert isinstance(task, SpoutTask)
    return task


@pytest.mark.parametrize("msg_id", [None, 7])
def test_a_spouts_emit_returns_the_tasks_that_receive_it(msg_id: int | None) -> None:
    spout = Given(lambda collector: (collector.emit(["a", 1], msg_id), collector.emit([1], msg_id, "unheard")))
    hand = driven(spout)
    hand.step("spout")
    heard, unheard = spout.returned[0]
    assert sorted(heard) == sorted(target for _, target, _ in hand.delivered)
    assert len(heard) == 4
    assert unheard == ()


@pytest.mark.parametrize("is_basic", [True, False])
@pytest.mark.parametrize("stream", ["to_one", "to_all", "to_nobody"])
def test_a_bolts_emit_returns_the_tasks_that_receive_it(is_basic: bool, stream: str) -> None:
    returned = Log()
    outputs = {"to_one": ["n"], "to_all": ["n"], "to_nobody": ["n"]}

    def relay(tup: Any, collector: Any) -> None:
        returned.append(collector.emit([tup["n"]], stream=stream))

    builder = TopologyBuilder()
    builder.set_spout("spout", Given(lambda collector: [collector.emit(["a", n], n) for n in range(5)]))
    builder.set_bolt("relay", (DoBasic if is_basic else Do)(relay, outputs)).shuffle_grouping("spout")
    builder.set_bolt("one", Do(), 3).shuffle_grouping("relay", "to_one")
    builder.set_bolt("all", Do(), 3).all_grouping("relay", "to_all")
    hand = HandDriven(builder.create_topology())
    hand.step("spout")
    hand.delivered.clear()
    while hand.step("relay"):
        pass
    received = Counter(target for _, target, rows in hand.delivered for _ in rows)
    assert Counter(task for tasks in returned for task in tasks) == received
    assert [len(tasks) for tasks in returned] == 5 * [{"to_one": 1, "to_all": 3, "to_nobody": 0}[stream]]


ROWS: list[tuple[str, Callable[[], Any]]] = [
    ("lists", lambda: [["a", 1], ["b", 2], ["a", 3]]),
    ("tuples", lambda: [("a", 1), ("b", 2), ("a", 3)]),
    ("zip", lambda: zip("aba", (1, 2, 3), strict=True)),
    ("a generator of views", lambda: (dict.fromkeys(row).keys() for row in (("a", 1), ("b", 2), ("a", 3)))),
]


@pytest.mark.parametrize("rows", [rows for _, rows in ROWS], ids=[name for name, _ in ROWS])
@pytest.mark.parametrize("is_basic", [True, False])
def test_rows_may_be_of_any_kind(rows: Callable[[], Any], is_basic: bool) -> None:
    def relay(tup: Any, collector: Any) -> None:
        assert collector.emit_many(rows()) == 3

    spout = Given(lambda collector: collector.emit_many(rows(), range(3)))
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("relay", (DoBasic if is_basic else Do)(relay, ["word", "n"])).all_grouping("spout")
    builder.set_bolt("all", Do()).all_grouping("relay")
    builder.set_bolt("one", Do(), 2).fields_grouping("relay", ["word"])
    hand = HandDriven(builder.create_topology())
    hand.step("spout")
    assert spout.returned == [3]
    while hand.step("relay"):
        pass
    arrived: dict[str, list[list[Any]]] = {"all": [], "one": []}
    for component, values in arrived.items():
        for _, target, given in hand.delivered:
            if target in hand.tasks[component]:
                values.extend(list(row) for row, _, _ in given)
    assert arrived["all"] == 3 * [["a", 1], ["b", 2], ["a", 3]]
    assert sorted(arrived["one"]) == sorted(arrived["all"])


class Replaying(Spout):
    """Begins ``most`` trees, and two more for each that ended as long as it has not begun so many."""

    outputs = ["word", "n"]

    def __init__(self, first: int, most: int) -> None:
        self.left, self.most = first, most
        self.begun = 0
        self.ended = Log()

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.begin()

    def begin(self) -> None:
        if self.begun < self.most:
            self.begun += 1
            self.collector.emit(["a", self.begun], self.begun)

    def ack(self, msg_id: int) -> None:
        self.ended.append(msg_id)
        self.begin()
        self.begin()

    fail = ack


def as_array(roots: Sequence[int]) -> array[int]:
    return array("Q", roots)


@pytest.mark.parametrize("kind", [VerdictKind.ACKED, VerdictKind.FAILED])
@pytest.mark.parametrize("shape", [list, as_array])
def test_trees_that_are_begun_while_others_end_are_waited_for(kind: Any, shape: Callable[[list[int]], Any]) -> None:
    spout = Replaying(first=50, most=2_000)
    hand = driven(spout)
    executor, task = hand.executor("spout"), task_of(hand)
    while hand.step("spout"):
        pass
    while roots := list(task.pending):
        executor.inbox.put_news(TreeVerdict(task.task_id, kind, shape(roots)))
        hand.step("spout")
    assert sorted(spout.ended) == list(range(1, 2_001))


def test_a_tracer_is_shown_what_expires_and_nothing_younger() -> None:
    shown: list[tuple[str, int]] = []

    class Watching:
        def judged(self, spout: SpoutTask, verdict: str, roots: Sequence[int]) -> None:
            shown.append((verdict, len(roots)))

        def sent(self, origin: Any, target: int, rows: Any) -> None:
            pass

    hand = driven(Replaying(first=9, most=9))
    while hand.step("spout"):
        pass
    hand.now_s = 30.0
    hand.step("spout")
    hand.executor("spout").tracer = Watching()  # type: ignore[assignment]
    task_of(hand).collector.emit(["a", 0], 0)
    hand.now_s = 60.0
    hand.step("spout")
    assert shown == [("expired", 9)]
    assert len(task_of(hand).pending) == 1
