"""The ends of a spout's trees, step by step: by verdicts, by timeouts, with a lost worker or shard."""

from __future__ import annotations

from typing import Any

import pytest
from driven_spout import Numbers, driven, roots_by_message, task_of
from hand_driven import apply
from local_components import Log

from tupletree.acker.ledger import Ledger
from tupletree.errors import TaskFailedError
from tupletree.worker.control_messages import ShardsLost, TreeVerdict, VerdictKind, WorkerLost
from tupletree.worker.execution.inbox import ACKERS


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
    with pytest.raises(TaskFailedError, match=f"task {second.task_id} of component 'spout'"):
        hand.step("spout")
