"""A spout executor, step by step: polling and pending trees."""

from __future__ import annotations

from typing import Any

import pytest
from driven_spout import Numbers, driven, roots_by_message, task_of
from hand_driven import HandDriven, inits
from local_components import Log

from tupletree.errors import TaskFailedError
from tupletree.worker.control_messages import TreeVerdict, VerdictKind
from tupletree.worker.execution.inbox import ACKERS
from tupletree.worker.execution.spout_executor import SpoutExecutor


def test_a_tracked_emit_announces_its_tree_and_sends_one_edge() -> None:
    hand = driven(Numbers(Log(), 1))
    hand.step("spout")
    [(_, _, [(values, root, edge)])] = hand.delivered
    updates = hand.take_updates()
    assert values == [0]
    assert inits(updates) == [(root, edge, *hand.tasks["spout"])]


def test_an_untracked_emit_announces_nothing() -> None:
    hand = driven(Numbers(Log(), 1, is_tracked=False))
    hand.step("spout")
    assert [rows for _, _, rows in hand.delivered] == [[([0], 0, 0)]]
    assert not hand.take_updates()


def test_max_pending_stops_polling_until_a_tree_ends() -> None:
    log = Log()
    hand = driven(Numbers(log), {"topology.max.spout.pending": 3})
    while hand.step("spout"):
        pass
    assert len(task_of(hand).pending) == 3
    assert hand.executor("spout").due_s() == 30, "nothing to do before something times out"
    root = roots_by_message(hand)[1]
    hand.tell("spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.ACKED, [root]))
    while hand.step("spout"):
        pass
    assert sorted(roots_by_message(hand)) == [0, 2, 3]
    assert list(log) == ["open", ("ack", 1)]


def test_a_spout_is_polled_less_often_the_longer_it_has_emitted_nothing() -> None:
    spout = Numbers(Log(), 1)
    hand = driven(spout, {"topology.message.timeout.secs": 3600})
    while hand.step("spout"):
        pass
    paused_s = {}
    for hand.now_s in (0.0, 0.05, 0.5, 2.0, 60.0):
        assert not hand.step("spout")
        paused_s[hand.now_s] = round(hand.executor("spout").due_s() - hand.now_s, 6)
    assert paused_s == {0.0: 0.001, 0.05: 0.001, 0.5: 0.005, 2.0: 0.01, 60.0: 0.01}
    [copy] = [task.spout for task in hand.executor("spout").tasks]
    copy.left = 1
    while hand.step("spout"):
        pass
    assert hand.executor("spout").due_s() == pytest.approx(60.001)


@pytest.mark.parametrize("pause_ms", [0, 50])
def test_a_pause_that_is_set_longer_or_to_nothing_is_kept(pause_ms: int) -> None:
    hand = driven(Numbers(Log(), 0), {"topology.sleep.spout.wait.strategy.time.ms": pause_ms})
    hand.step("spout")
    hand.now_s = 20.0
    assert hand.executor("spout").due_s() == pytest.approx(20 + pause_ms / 1000)


def test_max_pending_is_for_each_task() -> None:
    hand = driven(Numbers(Log()), {"topology.max.spout.pending": 2}, tasks=3)
    while hand.step("spout"):
        pass
    assert [len(task_of(hand, index).pending) for index in range(3)] == [2, 2, 2]


def test_untracked_tuples_do_not_count_as_pending() -> None:
    hand = driven(Numbers(Log(), 50, is_tracked=False), {"topology.max.spout.pending": 2})
    while hand.step("spout"):
        pass
    assert sum(len(rows) for _, _, rows in hand.delivered) == 50


def test_without_ackers_ack_is_called_inside_emit_and_nothing_is_pending() -> None:
    log = Log()

    class Checking(Numbers):
        def next_tuple(self) -> None:
            if self.left > 0:
                super().next_tuple()
                self.log.append("emitted")

    hand = driven(Checking(log, 2), {"topology.max.spout.pending": 1}, is_tracked=False)
    while hand.step("spout"):
        pass
    assert list(log) == ["open", ("ack", 0), "emitted", ("ack", 1), "emitted"]
    assert not hand.take_updates()
    assert hand.executor("spout").due_s() == hand.now_s + 0.001, "no timeout, only the next poll"
    assert task_of(hand).counters.acked == 2


def test_a_spout_opens_when_first_active_and_is_told_of_later_changes() -> None:
    log = Log()
    hand = driven(Numbers(log, 0), is_active=False)
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    hand.step("spout")
    assert list(log) == []
    for wanted in (True, True, False, False, True):
        executor.wants_active = wanted
        hand.step("spout")
        assert not executor.has_work
    executor.close()
    assert list(log) == ["open", "deactivate", "activate", "close"]


def test_a_spout_opens_although_its_topology_was_active_for_a_moment_only() -> None:
    log = Log()
    hand = driven(Numbers(log), is_active=False)
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    for wanted in (True, False):
        executor.wants_active = wanted
    assert executor.has_work
    assert not hand.step("spout")
    assert list(log) == ["open", "deactivate"]
    assert executor.is_paused and not executor.has_work
    for wanted in (True, False):
        executor.wants_active = wanted
    hand.step("spout")
    assert list(log) == ["open", "deactivate"], "it is open, and inactive as before"


def test_a_spout_that_was_never_active_is_neither_opened_nor_closed() -> None:
    log = Log()
    hand = driven(Numbers(log, 0), is_active=False)
    hand.step("spout")
    hand.executor("spout").close()
    assert list(log) == []


def test_a_deactivated_spout_still_hears_how_its_trees_end() -> None:
    log = Log()
    hand = driven(Numbers(log, 2))
    hand.step("spout")
    hand.step("spout")
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    executor.wants_active = False
    roots = roots_by_message(hand)
    task = hand.tasks["spout"][0]
    hand.tell("spout", TreeVerdict(task, VerdictKind.ACKED, [roots[0]]))
    hand.tell("spout", TreeVerdict(task, VerdictKind.FAILED, [roots[1]]))
    hand.step("spout")
    assert list(log) == ["open", ("ack", 0), ("fail", 1), "deactivate"]


def test_a_spout_whose_receiver_is_closed_is_not_polled_but_hears_verdicts() -> None:
    log = Log()
    hand = driven(Numbers(log))
    hand.step("spout")
    roots = roots_by_message(hand)
    for closed in (hand.tasks["bolt"][0], ACKERS):
        hand.gate.set("test", [closed])
        before = len(task_of(hand).pending)
        assert not hand.step("spout")
        assert hand.executor("spout").due_s() == 30
        assert len(task_of(hand).pending) == before
    hand.tell("spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.ACKED, [roots[0]]))
    assert hand.executor("spout").has_work
    hand.step("spout")
    assert ("ack", 0) in log
    hand.gate.set("test", ())
    assert hand.step("spout")


def test_an_untracked_topology_does_not_wait_for_ackers() -> None:
    hand = driven(Numbers(Log()), is_tracked=False)
    hand.gate.set("test", [ACKERS])
    assert hand.step("spout")


@pytest.mark.parametrize("method", ["open", "next_tuple", "ack", "fail", "deactivate"])
def test_an_exception_in_any_method_names_the_component(method: str) -> None:
    hand = driven(Numbers(Log(), 2))
    task = task_of(hand)

    def broken(*arguments: Any) -> None:
        raise ValueError("broken")

    if method not in ("open", "next_tuple"):
        hand.step("spout")
        hand.step("spout")
    roots = roots_by_message(hand)
    setattr(task.spout, method, broken)
    if method == "ack":
        hand.tell("spout", TreeVerdict(task.task_id, VerdictKind.ACKED, [roots[0]]))
    elif method == "fail":
        hand.tell("spout", TreeVerdict(task.task_id, VerdictKind.FAILED, [roots[0]]))
    elif method == "deactivate":
        hand.executor("spout").wants_active = False  # type: ignore[attr-defined]
    with pytest.raises(TaskFailedError, match=rf"task {task.task_id} of component 'spout' failed: ValueError: broken"):
        hand.step("spout")


def test_a_blocking_spout_is_asked_for_one_tuple_each_step() -> None:
    spout = Numbers(Log())
    spout.blocking = True
    hand = driven(spout)
    for count in (1, 2, 3):
        hand.step("spout")
        assert len(hand.delivered) == count


def test_polling_ends_when_hurried() -> None:
    class Hurried(Numbers):
        def next_tuple(self) -> None:
            super().next_tuple()
            if self.next == 20:
                hurry()

    hurry_target: list[HandDriven] = []

    def hurry() -> None:
        hurry_target[0].executor("spout").hurry()

    hand = driven(Numbers(Log()))
    hurry_target.append(hand)
    task = task_of(hand)
    task.spout.__class__ = Hurried
    while task.collector.emits < 20:
        hand.step("spout")
    assert task.collector.emits == 20
    hand.step("spout")
    assert task.collector.emits > 21
