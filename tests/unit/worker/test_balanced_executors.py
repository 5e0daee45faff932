"""Executors whose shuffles follow loads and congestion: who gets the tuples, and for whom the sender waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do

from tupletree import TopologyBuilder
from tupletree.declarer import BoltDeclarer
from tupletree.testing import FeederSpout
from tupletree.worker.execution.balancer import REFRESH_S
from tupletree.worker.execution.inbox import not_reached

PLAIN = {"topology.disable.loadaware.messaging": True}


def scene(
    group: Callable[[BoltDeclarer], Any] | None = None, conf: dict[str, Any] | None = None, spouts: int = 1
) -> tuple[HandDriven, FeederSpout]:
    """A spout, and four tasks of a bolt, each of which has an executor of its own."""
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, 1).set_num_tasks(spouts)
    declared = builder.set_bolt("bolt", Do(), 4).set_blocking(True)
    (group or (lambda bolt: bolt.shuffle_grouping("spout")))(declared)
    hand = HandDriven(builder.create_topology(), conf, is_tracked=False)
    hand.step("spout")  # opens
    return hand, feeder


def received(hand: HandDriven, feeder: FeederSpout, count: int = 40) -> list[int]:
    """Emit tuples; return how many each task of the bolt is handed."""
    hand.delivered.clear()
    for number in range(count):
        feeder.feed([number])
    while hand.step("spout"):
        pass
    found = Counter(task for _, task, rows in hand.delivered for _ in rows)
    return [found[task] for task in hand.tasks["bolt"]]


def tell(hand: HandDriven, *waits_s: float) -> None:
    """Let the sender know these loads, and the time be over at which it looks at them."""
    hand.now_s += REFRESH_S
    tasks = zip(hand.tasks["bolt"], waits_s, strict=True)
    hand.gate.loads.set("test", {task: hand.now_s + wait_s for task, wait_s in tasks if wait_s})
    hand.step("spout")


@pytest.mark.parametrize("grouping", ["shuffle_grouping", "none_grouping", "local_or_shuffle_grouping"])
def test_a_loaded_task_gets_fewer_tuples_and_as_many_as_the_others_when_it_is_free(grouping: str) -> None:
    hand, feeder = scene(lambda bolt: getattr(bolt, grouping)("spout"))
    assert received(hand, feeder) == [10, 10, 10, 10]
    tell(hand, 0, 0.1, 0, 0)
    assert received(hand, feeder, 130) == [40, 10, 40, 40], "twice what is permitted: a quarter"
    tell(hand, 0, 20, 0, 0)
    assert sorted(received(hand, feeder, 30)) == [0, 10, 10, 10]
    for _ in range(30):
        tell(hand, 0, 0, 0, 0)
    assert received(hand, feeder) == [10, 10, 10, 10]


def test_all_tasks_of_a_spout_follow_the_load() -> None:
    hand, feeder = scene(spouts=3)
    tell(hand, 20, 0, 0, 0)
    found = received(hand, feeder, 90)
    assert found[0] == 0 and max(found) - min(found[1:]) <= 6


def test_a_sender_goes_on_after_an_hour_without_a_tuple() -> None:
    hand, feeder = scene()
    hand.now_s += 3600
    assert received(hand, feeder) == [10, 10, 10, 10]


def test_a_congested_task_is_passed_over_and_only_if_all_are_congested_does_the_sender_wait() -> None:
    hand, feeder = scene()
    tasks, spout = hand.tasks["bolt"], hand.executor("spout")
    hand.gate.set("test", tasks[:1])
    assert not spout.is_held
    hand.step("spout")
    assert sorted(received(hand, feeder, 30)) == [0, 10, 10, 10]
    hand.gate.set("test", tasks)
    assert spout.is_held
    assert received(hand, feeder, 3) == [0, 0, 0, 0]
    hand.gate.set("test", tasks[1:])
    assert received(hand, feeder, 1) == [4, 0, 0, 0]


@pytest.mark.parametrize("is_first", [True, False])
def test_calls_pass_over_a_congested_task_too(is_first: bool) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do(outputs=["n"])).shuffle_grouping("spout")
    builder.set_bolt("sink", Do(), 2).set_blocking(True).shuffle_grouping("bolt")
    hand = HandDriven(builder.create_topology(), is_tracked=False)
    bolt = hand.executor("bolt").tasks[0]
    assert bolt.ask_soon is not None
    hand.gate.set("test", hand.tasks["sink"][:1])
    for number in range(4):
        bolt.ask_soon(is_first, None, lambda number=number: bolt.collector.emit([number]))  # type: ignore[attr-defined, misc]
    while hand.step("bolt"):
        pass
    assert [task for _, task, rows in hand.delivered for _ in rows] == [hand.tasks["sink"][1]] * 4


def test_what_a_spout_emits_before_it_is_polled_passes_over_a_congested_task_too() -> None:
    hand, feeder = scene()
    spout = hand.executor("spout").tasks[0]
    assert spout.ask_soon is not None
    hand.gate.set("test", hand.tasks["bolt"][:1])
    for number in range(30):
        spout.ask_soon(True, None, lambda number=number: spout.collector.emit([number]))  # type: ignore[attr-defined, misc]
    assert sorted(received(hand, feeder, 0)) == [0, 10, 10, 10]


def test_what_was_emitted_for_a_task_that_has_become_congested_waits_for_it() -> None:
    hand, feeder = scene()
    for number in range(8):
        feeder.feed([number])
    spout = hand.executor("spout")
    while spout.step():
        pass
    hand.gate.set("test", hand.tasks["bolt"][:1])
    hand.delivered.clear()
    spout.flush()
    assert {task for _, task, _ in hand.delivered} == set(hand.tasks["bolt"][1:])
    hand.gate.set("test", ())
    spout.flush()
    assert sum(len(rows) for _, _, rows in hand.delivered) == 8
    assert received(hand, feeder, 4) != [4, 0, 0, 0]


def test_an_unreachable_task_makes_the_sender_wait() -> None:
    hand, _ = scene()
    hand.gate.set("test", not_reached(hand.tasks["bolt"][:1]))
    assert hand.executor("spout").is_held


def test_a_task_that_another_grouping_also_reaches_makes_the_sender_wait() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do(outputs={"a": ["n"], "b": ["n"]})).shuffle_grouping("spout")
    builder.set_bolt("sink", Do(), 3).set_blocking(True).shuffle_grouping("bolt", "a").fields_grouping(
        "bolt", ["n"], "b"
    )
    builder.set_bolt("other", Do(), 3).set_blocking(True).shuffle_grouping("bolt", "a").shuffle_grouping("bolt", "b")
    hand = HandDriven(builder.create_topology())
    bolt = hand.executor("bolt")
    hand.gate.set("test", hand.tasks["other"][:1])
    assert not bolt.is_held
    hand.gate.set("test", hand.tasks["sink"][:1])
    assert bolt.is_held


def test_who_feeds_a_cycle_waits_for_every_task_that_a_back_edge_leads_to() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("a", Do(outputs=["n"]), 2).set_blocking(True).shuffle_grouping("spout").shuffle_grouping("b")
    builder.set_bolt("b", Do(outputs=["n"]), 2).set_blocking(True).shuffle_grouping("a")
    hand = HandDriven(builder.create_topology())
    hand.gate.set("test", hand.tasks["a"][:1])
    assert [hand.executor(name).is_held for name in ("spout", "a", "b")] == [True, False, False]
    hand.gate.set("test", hand.tasks["b"][:1])
    assert [hand.executor(name).is_held for name in ("spout", "a", "b")] == [False, False, False]
    hand.gate.set("test", hand.tasks["b"])
    assert [hand.executor(name).is_held for name in ("spout", "a", "b")] == [False, True, False]
    hand.gate.set("test", hand.tasks["a"])
    assert [hand.executor(name).is_held for name in ("spout", "a", "b")] == [True, False, False]


def test_a_bolt_that_feeds_itself_does_not_wait_for_itself() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("a", Do(outputs=["n"]), 3).set_blocking(True).shuffle_grouping("spout").shuffle_grouping("a")
    hand = HandDriven(builder.create_topology())
    hand.gate.set("test", hand.tasks["a"])
    assert [hand.executor(name).is_held for name in ("spout", "a")] == [True, False]
    hand.gate.set("test", not_reached(hand.tasks["a"][:1]))
    assert [hand.executor(name).is_held for name in ("spout", "a")] == [True, True]


def test_disabled_shuffles_take_turns_and_wait_for_every_task() -> None:
    hand, feeder = scene(conf=PLAIN)
    tell(hand, 0, 20, 0, 0)
    assert received(hand, feeder) == [10, 10, 10, 10]
    hand.gate.set("test", hand.tasks["bolt"][:1])
    assert hand.executor("spout").is_held


def test_tasks_of_one_executor_share_their_load_and_take_turns() -> None:
    feeder, builder = FeederSpout(["n"]), TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", Do(), 4).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology(), is_tracked=False)
    hand.step("spout")
    tell(hand, 20, 20, 20, 20)
    assert received(hand, feeder) == [10, 10, 10, 10]
    hand.gate.set("test", hand.tasks["bolt"])
    assert hand.executor("spout").is_held
