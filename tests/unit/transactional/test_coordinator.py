"""The coordinator: what begins, what commits, what a failure takes along."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tupletree.transactional.coordinator import Coordinator, EmitCommit, Phase, Record


def coordinator(max_active=3, committed=0, epoch=1, max_group=1):
    return Coordinator(epoch, committed, max_active, max_group)


def begin(one, now_s=0.0):
    txid = one.wants(now_s)
    assert txid is not None
    return one.begin(txid)


def test_transactions_begin_in_order_up_to_the_limit():
    one = coordinator(max_active=2)
    assert [begin(one).txid, begin(one).txid] == [1, 2]
    assert one.wants(0.0) is None


def test_the_first_transaction_commits_as_soon_as_it_is_processed():
    one = coordinator()
    first = begin(one)
    assert one.processed(first) == (Record(0, (first,)), EmitCommit((first,)))
    assert one.commit_done(first) == (Record(1),)
    assert one.committed == 1


def test_a_later_transaction_waits_for_the_earlier_to_commit():
    one = coordinator()
    first, second = begin(one), begin(one)
    assert one.processed(second) == ()
    assert one.processed(first) == (Record(0, (first,)), EmitCommit((first,)))
    assert one.commit_done(first) == (Record(1, (second,)), EmitCommit((second,)))


def test_a_failure_takes_every_later_transaction_along_and_none_before():
    one = coordinator()
    first, second, third = begin(one), begin(one), begin(one)
    assert list(one.failed(second, 0.0)) == [second, third]
    assert one.is_current(first)
    again = [begin(one), begin(one)]
    assert [attempt.txid for attempt in again] == [2, 3]
    assert all(attempt.attempt > third.attempt for attempt in again)


def test_a_failed_commit_is_replayed_from_the_processing_phase():
    one = coordinator()
    first = begin(one)
    one.processed(first)
    assert list(one.failed(first, 0.0)) == [first]
    assert one.active == {}
    assert begin(one).txid == 1


def test_news_of_an_attempt_that_is_over_change_nothing():
    one = coordinator()
    old = begin(one)
    one.failed(old, 0.0)
    new = begin(one)
    assert one.processed(old) == ()
    assert one.commit_done(old) == ()
    assert list(one.failed(old, 0.0)) == []
    assert one.active[1].attempt == new


def test_the_end_of_the_batch_tree_told_twice_commits_nothing():
    one = coordinator()
    first = begin(one)
    one.processed(first)
    assert one.processed(first) == ()
    assert one.active[1].phase is Phase.COMMITTING


def test_a_commit_that_was_not_asked_for_is_not_believed():
    one = coordinator()
    first = begin(one)
    assert one.commit_done(first) == ()
    assert one.committed == 0


def test_a_coordinator_goes_on_after_what_is_committed():
    assert begin(coordinator(committed=41)).txid == 42


def test_attempts_of_a_later_epoch_are_higher():
    assert begin(coordinator(epoch=2)).attempt > begin(coordinator(epoch=1)).attempt + 1_000_000


def test_the_first_failure_is_tried_again_at_once_and_further_ones_after_a_pause_that_grows():
    one = coordinator()
    pauses = []
    now_s = 0.0
    for _ in range(12):
        one.failed(begin(one, now_s), now_s)
        waited_s = 0.0
        while one.wants(now_s + waited_s) is None:
            waited_s += 0.01
        pauses.append(waited_s)
        now_s += waited_s
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert 0.9 < pauses[-1] < 1.1


def test_a_commit_ends_the_pauses():
    one = coordinator()
    one.failed(begin(one), 0.0)
    one.failed(begin(one), 0.0)
    assert one.wants(0.0) is None
    attempt = begin(one, 5.0)
    one.processed(attempt)
    one.commit_done(attempt)
    one.failed(begin(one, 5.0), 5.0)
    assert one.wants(5.0) == 2


def test_what_is_processed_while_a_group_commits_is_the_next_group():
    one = coordinator(max_active=6, max_group=3)
    attempts = [begin(one) for _ in range(6)]
    assert [len(one.processed(attempt)) for attempt in attempts] == [2, 0, 0, 0, 0, 0]
    assert one.commit_done(attempts[0]) == (Record(1, tuple(attempts[1:4])), EmitCommit(tuple(attempts[1:4])))
    assert one.commit_done(attempts[2]) == ()  # a group is named by its first attempt
    assert one.commit_done(attempts[1]) == (Record(4, tuple(attempts[4:])), EmitCommit(tuple(attempts[4:])))
    assert one.commit_done(attempts[4]) == (Record(6),)


def test_a_group_ends_before_a_transaction_that_is_not_processed():
    one = coordinator(max_active=4, max_group=4)
    first, second, third, fourth = (begin(one) for _ in range(4))
    for attempt in (second, fourth):
        assert one.processed(attempt) == ()
    assert one.processed(first) == (Record(0, (first, second)), EmitCommit((first, second)))
    assert one.processed(third) == ()


def test_a_group_fails_whole_and_takes_every_later_transaction_along():
    one = coordinator(max_active=4, max_group=4)
    attempts = [begin(one) for _ in range(4)]
    for attempt in (attempts[1], attempts[0]):
        one.processed(attempt)
    assert list(one.failed(attempts[1], 0.0)) == attempts
    assert one.commit_done(attempts[0]) == ()
    assert one.committed == 0


def test_transactions_that_begin_together_are_counted_as_active():
    one = coordinator(max_active=2)
    assert [one.wants(0.0, planned) for planned in (0, 1, 2)] == [1, 2, None]


def test_a_transaction_out_of_turn_cannot_begin():
    with pytest.raises(ValueError, match="transaction 2 cannot begin: the next is 1"):
        coordinator().begin(2)


class Coordinators(RuleBasedStateMachine):
    """Any news in any order: the invariants of the module hold after each."""

    @initialize(max_group=st.integers(1, 5))
    def start(self, max_group):
        self.coordinator = coordinator(max_active=4, max_group=max_group)

    def __init__(self):
        super().__init__()
        self.coordinator = coordinator(max_active=4)
        self.begun = []
        self.commits = []
        self.now_s = 0.0

    @rule()
    def begin(self):
        self.now_s += 2.0
        txid = self.coordinator.wants(self.now_s)
        if txid is not None:
            attempt = self.coordinator.begin(txid)
            assert all(attempt.attempt > other.attempt for other in self.begun)
            self.begun.append(attempt)

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), news=st.sampled_from(["processed", "commit_done", "failed"]))
    def hear(self, data, news):
        attempt = data.draw(st.sampled_from(self.begun[-6:]))
        committed = self.coordinator.committed
        if news == "failed":
            self.coordinator.failed(attempt, self.now_s)
            effects = ()
        else:
            effects = getattr(self.coordinator, news)(attempt)
        for effect in effects:
            if isinstance(effect, EmitCommit):
                first = self.coordinator.committed + 1
                assert len(effect.attempts) <= self.coordinator.max_group
                assert [one.txid for one in effect.attempts] == list(range(first, first + len(effect.attempts)))
        assert 0 <= self.coordinator.committed - committed <= self.coordinator.max_group

    @invariant()
    def holds(self):
        active = self.coordinator.active
        committed = self.coordinator.committed
        assert list(active) == list(range(committed + 1, committed + 1 + len(active)))
        assert len(active) <= 4
        committing = [txid for txid, one in active.items() if one.phase is Phase.COMMITTING]
        assert committing == list(range(committed + 1, committed + 1 + len(committing)))
        assert len(committing) <= self.coordinator.max_group
        numbers = [one.attempt.attempt for one in active.values()]
        assert numbers == sorted(numbers)


TestCoordinators = Coordinators.TestCase
