"""A spout executor, step by step: polling, pending trees and how they end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hand_driven import HandDriven, apply, inits
from local_components import Do, Log

from tupletree import Spout, TopologyBuilder
from tupletree.acker.ledger import Ledger
from tupletree.worker.control_messages import ShardsLost, TreeVerdict, VerdictKind, WorkerLost
from tupletree.worker.core.spout_task import SpoutTask, message_of
from tupletree.worker.core.task import TaskFailure
from tupletree.worker.execution.inbox import ACKERS
from tupletree.worker.execution.spout_executor import SpoutExecutor


class Numbers(Spout):
    """Emits 0, 1, 2, … with the number as message id, and logs every call but next_tuple."""

    outputs = ["n"]

    def __init__(self, log: Log, count: float = math.inf, is_tracked: bool = True) -> None:
        self.log = log
        self.left = count
        self.next = 0
        self.is_tracked = is_tracked

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector
        self.log.append("open")

    def activate(self) -> None:
        self.log.append("activate")

    def deactivate(self) -> None:
        self.log.append("deactivate")

    def close(self) -> None:
        self.log.append("close")

    def next_tuple(self) -> None:
        if self.left > 0:
            self.left -= 1
            self.collector.emit([self.next], self.next if self.is_tracked else None)
            self.next += 1

    def ack(self, msg_id: Any) -> None:
        self.log.append(("ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        self.log.append(("fail", msg_id))


def driven(
    spout: Spout, conf: dict[str, Any] | None = None, tasks: int = 1, is_tracked: bool = True, **more: Any
) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout).set_num_tasks(tasks)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    return HandDriven(builder.create_topology(), conf, is_tracked=is_tracked, **more)


def task_of(hand: HandDriven, index: int = 0) -> SpoutTask:
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    task = executor.tasks[index]
    assert isinstance(task, SpoutTask)
    return task


def roots_by_message(hand: HandDriven, index: int = 0) -> dict[Any, int]:
    pending = task_of(hand, index).pending
    return {message_of(pending.get(root)): root for root in pending}


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
    hand = driven(Numbers(log, 0))
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    executor.wants_active = False
    hand.step("spout")
    assert list(log) == []
    for wanted in (True, False, True):
        executor.wants_active = wanted
        assert executor.has_work
        hand.step("spout")
        assert not executor.has_work
    executor.close()
    assert list(log) == ["open", "deactivate", "activate", "close"]


def test_a_spout_that_was_never_active_is_neither_opened_nor_closed() -> None:
    log = Log()
    hand = driven(Numbers(log, 0))
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


@pytest.mark.parametrize("emitted_s", [0.0, 0.1, 12.0, 29.9])
def test_a_message_times_out_after_one_timeout_at_the_earliest_and_two_at_the_latest(emitted_s: float) -> None:
    log = Log()
    hand = driven(Numbers(log, 1))
    hand.now_s = emitted_s
    hand.step("spout")
    failed_s = None
    while failed_s is None:
        hand.now_s = round(hand.now_s + 0.1, 6)
        hand.step("spout")
        if ("fail", 0) in log:
            failed_s = hand.now_s
    assert 30 <= failed_s - emitted_s <= 60.1
    assert task_of(hand).counters.timeouts == 1


def test_a_reset_starts_the_timeout_again() -> None:
    log = Log()
    hand = driven(Numbers(log, 1))
    hand.step("spout")
    [root] = roots_by_message(hand).values()
    for _ in range(10):
        hand.now_s += 25
        hand.tell("spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.RESET, [root, 12345]))
        hand.step("spout")
    assert list(log) == ["open"]
    hand.now_s += 60
    hand.step("spout")
    hand.step("spout")
    assert list(log) == ["open", ("fail", 0)]


def test_without_timeouts_nothing_expires() -> None:
    log = Log()
    hand = driven(Numbers(log, 1), {"topology.enable.message.timeouts": False})
    hand.step("spout")
    for _ in range(5):
        hand.now_s += 1000
        hand.step("spout")
    assert list(log) == ["open"]


def test_a_message_ends_once_whatever_is_heard_afterwards() -> None:
    log = Log()
    hand = driven(Numbers(log, 3))
    hand.step("spout")
    hand.step("spout")
    task = hand.tasks["spout"][0]
    roots = roots_by_message(hand)
    first = [
        TreeVerdict(task, VerdictKind.ACKED, [roots[0]]),
        TreeVerdict(task, VerdictKind.FAILED, [roots[1]]),
        TreeVerdict(task, VerdictKind.EXPIRED, [roots[2]]),
    ]
    late = [
        TreeVerdict(task, kind, list(roots.values()))
        for kind in (VerdictKind.ACKED, VerdictKind.FAILED, VerdictKind.EXPIRED, VerdictKind.RESET)
    ]
    for control in [*first, *late]:
        hand.tell("spout", control)
    hand.step("spout")
    hand.now_s = 1000
    hand.step("spout")
    assert list(log) == ["open", ("ack", 0), ("fail", 1), ("fail", 2)]
    counters = task_of(hand).counters
    assert (counters.acked, counters.failed, counters.timeouts) == (1, 2, 1)


def test_what_a_lost_worker_may_have_held_fails_after_the_grace_and_the_rest_is_spared() -> None:
    log = Log()
    hand = driven(Numbers(log, 4))
    while hand.step("spout"):
        pass
    roots = roots_by_message(hand)
    hand.tell("spout", WorkerLost(grace_s=1.0))
    hand.gate.set("test", [ACKERS])
    hand.step("spout")
    assert hand.executor("spout").due_s() == 1.0
    hand.gate.set("test", ())
    spout = task_of(hand).spout
    assert isinstance(spout, Numbers)
    spout.left = 1  # emitted after the loss: cannot have been lost with it
    hand.step("spout")
    hand.now_s = 0.9
    hand.tell(
        "spout", TreeVerdict(hand.tasks["spout"][0], VerdictKind.ACKED, [roots[2]])
    )  # proves in time that it was not lost
    hand.step("spout")
    assert list(log) == ["open", ("ack", 2)]
    hand.now_s = 1.0
    assert hand.step("spout")
    assert list(log) == ["open", ("ack", 2), ("fail", 0), ("fail", 1), ("fail", 3)]
    assert list(roots_by_message(hand)) == [4]
    assert hand.executor("spout").due_s() > 1.0, "the suspicion is over"


def test_two_workers_lost_one_after_the_other_fail_each_tree_once() -> None:
    log = Log()
    hand = driven(Numbers(log, 2))
    while hand.step("spout"):
        pass
    hand.tell("spout", WorkerLost(1.0))
    hand.step("spout")
    hand.now_s = 0.5
    hand.tell("spout", WorkerLost(1.0))
    hand.step("spout")
    for hand.now_s in (1.0, 1.5, 2.0):
        hand.step("spout")
    assert sorted(log[1:]) == [("fail", 0), ("fail", 1)]


def test_a_worker_lost_while_nothing_is_pending_fails_nothing() -> None:
    log = Log()
    hand = driven(Numbers(log, 0))
    hand.tell("spout", WorkerLost(1.0))
    hand.step("spout")
    assert hand.executor("spout").due_s() <= hand.now_s + 0.001
    hand.now_s = 2.0
    assert not hand.step("spout")


def test_lost_shards_fail_their_trees_at_once_and_no_others() -> None:
    log = Log()
    hand = driven(Numbers(log, 40))
    while hand.step("spout"):
        pass
    roots = roots_by_message(hand)
    hand.tell("spout", ShardsLost(frozenset([1, 3]), 4))
    hand.step("spout")
    lost = {message for message, root in roots.items() if root % 4 in (1, 3)}
    assert {entry[1] for entry in log[1:]} == lost
    assert all(entry[0] == "fail" for entry in log[1:])
    assert set(roots_by_message(hand)) == set(range(40)) - lost
    assert 0 < len(lost) < 40


def test_verdicts_reach_the_task_that_emitted_and_no_other_of_its_executor() -> None:
    log = Log()

    class Named(Numbers):
        def ack(self, msg_id: Any) -> None:
            self.log.append((self.context.task_id, "ack", msg_id))

    hand = driven(Named(log, 5), tasks=3)
    while hand.step("spout"):
        pass
    ledger = Ledger()
    hand.tell_verdicts(apply(ledger, hand.take_updates()))
    while hand.step("bolt"):
        pass
    hand.tell_verdicts(apply(ledger, hand.take_updates()))
    hand.step("spout")
    acks = [entry for entry in log if entry != "open"]
    assert sorted(acks) == [(task, "ack", n) for task in hand.tasks["spout"] for n in range(5)]


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
    with pytest.raises(TaskFailure, match=rf"task {task.task_id} of component 'spout' failed: ValueError: broken"):
        hand.step("spout")


def test_a_failure_while_hearing_verdicts_names_the_task_they_are_for() -> None:
    hand = driven(Numbers(Log(), 1), tasks=2)
    while hand.step("spout"):
        pass
    second = task_of(hand, 1)

    def broken(msg_id: Any) -> None:
        raise ValueError("broken")

    second.spout.ack = broken  # type: ignore[method-assign]
    hand.tell(
        "spout", TreeVerdict(second.task_id, VerdictKind.ACKED, list(roots_by_message(hand, 1).values())), index=1
    )
    with pytest.raises(TaskFailure, match=f"task {second.task_id} of component 'spout'"):
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
