"""Counting: when a batch is complete, what is acked when, what happens to attempts that are over."""

from __future__ import annotations

import pytest

from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.transactional.counting import Ack, BatchCounts, Fail, Finish, Forget

A, B = 11, 12  # two tasks upstream


def attempt(txid=1, number=0, epoch=1):
    return TransactionAttempt(txid, first_attempt(epoch) + number)


def early(*tasks):
    return BatchCounts(dict.fromkeys(tasks, False), is_committer=False)


def committer(upstream=None):
    return BatchCounts(upstream or {A: False}, is_committer=True)


def receive(counts, one, sender, tuples=1):
    batch, effects = counts.batch(one)
    batch.received[sender] = batch.received.get(sender, 0) + tuples
    return list(effects)


def test_a_batch_is_finished_when_every_task_upstream_has_reported_what_arrived():
    counts = early(A, B)
    receive(counts, attempt(), A, 3)
    receive(counts, attempt(), B, 2)
    assert counts.report(attempt(), A, 3, 0, "a") == []
    assert counts.report(attempt(), B, 2, 0, "b") == [Finish(attempt(), "b")]
    assert counts.finished(attempt()) == [Ack(["a", "b"]), Forget([attempt()])]


def test_a_task_that_is_sent_nothing_finishes_the_batch_too():
    counts = early(A)
    assert counts.report(attempt(), A, 0, 0, "a") == [Finish(attempt(), "a")]


@pytest.mark.parametrize("arrived", [0, 1, 3])
def test_a_wrong_number_of_tuples_fails_the_batch_at_once(arrived):
    counts = early(A)
    receive(counts, attempt(), A, arrived)
    [fail, forget] = counts.report(attempt(), A, 2, 0, "a")
    assert fail == Fail(["a"], f"{attempt()}: {arrived} of 2 tuples of task {A} arrived")
    assert forget == Forget([attempt()])


def test_a_tuple_too_many_from_one_task_does_not_make_up_for_one_too_few_from_another():
    counts = early(A, B)
    receive(counts, attempt(), A, 3)
    receive(counts, attempt(), B, 1)
    assert isinstance(counts.report(attempt(), A, 2, 0, "a")[0], Fail)
    assert counts.report(attempt(), B, 2, 0, "b") == [Fail(["b"])]


def test_what_comes_of_a_failed_batch_is_failed_at_once():
    counts = early(A, B)
    counts.report(attempt(), A, 0, 0, "a")
    assert counts.failed(attempt()) == [Fail(["a"]), Forget([attempt()])]
    assert counts.batch(attempt())[0] is None
    assert counts.report(attempt(), B, 0, 0, "b") == [Fail(["b"])]
    assert counts.failed(attempt()) == []


def test_a_report_told_twice_counts_once():
    counts = early(A, B)
    receive(counts, attempt(), A, 1)
    counts.report(attempt(), A, 1, 0, "a")
    assert counts.report(attempt(), A, 1, 0, "a again") == []
    assert counts.report(attempt(), B, 0, 0, "b") == [Finish(attempt(), "b")]
    assert counts.finished(attempt())[0] == Ack(["a", "a again", "b"])
    assert counts.report(attempt(), A, 1, 0, "a late") == [Ack(["a late"])]


def test_tuples_of_two_attempts_are_counted_apart():
    counts = early(A)
    receive(counts, attempt(1, 0), A, 2)
    receive(counts, attempt(1, 1), A, 5)
    assert counts.report(attempt(1, 1), A, 5, 0, "a") == [Finish(attempt(1, 1), "a")]


def test_a_newer_attempt_drops_the_older_and_those_of_later_transactions_and_fails_what_they_hold():
    counts = early(A, B)
    for one, control in ((attempt(1, 0), "one"), (attempt(2, 1), "two"), (attempt(3, 2), "three")):
        counts.report(one, A, 0, 0, control)
    effects = receive(counts, attempt(2, 3), A)
    assert effects == [Fail(["two", "three"]), Forget([attempt(2, 1), attempt(3, 2)])]
    assert counts.report(attempt(3, 2), B, 0, 0, "late") == [Fail(["late"])]
    assert counts.report(attempt(1, 0), B, 0, 0, "b") == [Finish(attempt(1, 0), "b")]


def test_tuples_of_an_attempt_that_is_over_belong_to_nobody():
    counts = early(A)
    receive(counts, attempt(1, 5), A)
    assert counts.batch(attempt(1, 4)) == (None, ())
    assert counts.batch(attempt(2, 4)) == (None, ())


def test_batches_are_dropped_once_their_transaction_is_committed():
    counts = early(A)
    for txid in (1, 2, 3):
        counts.report(attempt(txid, txid), A, 0, txid - 1, txid)
        counts.finished(attempt(txid, txid))
        assert len(counts.batches) == 1


def test_a_committer_waits_for_its_commit_tuple_and_acks_what_was_processed_before():
    counts = committer()
    receive(counts, attempt(), A, 1)
    assert counts.report(attempt(), A, 1, 0, "a") == [Ack(["a"])]
    assert counts.commit((attempt(),), "commit") == [Finish(attempt(), "commit")]
    assert counts.finished(attempt()) == [Ack(["commit"]), Forget([attempt()])]


def test_a_committer_that_lost_what_was_processed_fails_the_commit():
    [fail, _] = committer().commit((attempt(),), "commit")
    assert fail == Fail(["commit"], f"{attempt()}: its early reports are lost")


def test_a_commit_told_twice_commits_once():
    counts = committer({A: False, B: True})
    counts.report(attempt(), A, 0, 0, "a")
    assert counts.commit((attempt(),), "commit") == []
    assert counts.commit((attempt(),), "again") == []
    assert counts.report(attempt(), B, 0, 0, "b") == [Finish(attempt(), "b")]
    assert counts.finished(attempt())[0] == Ack(["commit", "again", "b"])
    assert counts.commit((attempt(),), "late") == [Ack(["late"])]


def test_downstream_of_a_committer_early_reports_are_acked_and_late_ones_held():
    """Bolt C of the defining document: fed by A, which is early, and by B, a committer."""
    counts = BatchCounts({A: False, B: True}, is_committer=False)
    receive(counts, attempt(), A, 2)
    assert counts.report(attempt(), A, 2, 0, "a") == [Ack(["a"])]
    receive(counts, attempt(), B, 1)
    assert counts.report(attempt(), B, 1, 0, "b") == [Finish(attempt(), "b")]
    assert counts.finished(attempt())[0] == Ack(["b"])


def test_downstream_of_a_committer_a_late_report_finds_out_that_early_ones_are_lost():
    counts = BatchCounts({A: False, B: True}, is_committer=False)
    [fail, _] = counts.report(attempt(), B, 0, 0, "b")
    assert fail == Fail(["b"], f"{attempt()}: its early reports are lost")


def test_a_copy_of_an_early_report_at_a_late_component_is_acked_like_the_first():
    counts = committer()
    counts.report(attempt(), A, 0, 0, "a")
    assert counts.report(attempt(), A, 0, 0, "again") == [Ack(["again"])]


GROUP = (attempt(1, 0), attempt(2, 1), attempt(3, 2))


def reported(counts, task=A):
    for one in GROUP:
        counts.report(one, task, 0, 0, f"early {one.txid}")
    return counts


def test_a_committer_finishes_a_group_one_after_the_other_and_then_acks_its_commit_tuple():
    counts = reported(committer())
    assert counts.commit(GROUP, "commit") == [Finish(GROUP[0], "commit")]
    assert counts.finished(GROUP[0]) == [Ack([]), Forget([GROUP[0]]), Finish(GROUP[1], "commit")]
    assert counts.finished(GROUP[1]) == [Ack([]), Forget([GROUP[1]]), Finish(GROUP[2], "commit")]
    assert counts.finished(GROUP[2]) == [Ack(["commit"]), Forget([GROUP[2]])]


def test_a_batch_of_a_group_whose_late_reports_come_first_waits_for_the_one_before():
    counts = reported(committer({A: False, B: True}))
    assert counts.commit(GROUP, "commit") == []
    assert counts.report(GROUP[1], B, 0, 0, "late 2") == []
    assert counts.report(GROUP[0], B, 0, 0, "late 1") == [Finish(GROUP[0], "late 1")]
    assert counts.finished(GROUP[0]) == [Ack(["late 1"]), Forget([GROUP[0]]), Finish(GROUP[1], "late 2")]
    assert counts.finished(GROUP[1]) == [Ack(["late 2"]), Forget([GROUP[1]])]
    assert counts.report(GROUP[2], B, 0, 0, "late 3") == [Finish(GROUP[2], "late 3")]
    assert counts.finished(GROUP[2])[0] == Ack(["commit", "late 3"])


def test_a_batch_that_the_component_fails_fails_what_follows_in_its_group():
    counts = reported(committer())
    counts.commit(GROUP, "commit")
    counts.finished(GROUP[0])
    assert counts.failed(GROUP[1]) == [Fail(["commit"]), Forget(list(GROUP[1:]))]
    assert counts.batch(GROUP[2])[0] is None
    assert counts.commit(GROUP, "again") == [Fail(["again"])]


def test_a_group_of_which_a_batch_was_lost_is_not_begun():
    counts = committer()
    counts.report(GROUP[0], A, 0, 0, "early 1")
    counts.report(GROUP[2], A, 0, 0, "early 3")
    [fail, forget] = counts.commit(GROUP, "commit")
    assert fail == Fail(["commit"], f"{GROUP[1]}: its early reports are lost")
    assert forget == Forget([GROUP[1]])


def test_a_commit_of_a_group_told_twice_commits_once():
    counts = reported(committer({A: False, B: True}))
    counts.commit(GROUP, "commit")
    assert counts.commit(GROUP, "again") == []
    for one in GROUP:
        counts.report(one, B, 0, 0, f"late {one.txid}")
        counts.finished(one)
    assert counts.commit(GROUP, "late") == [Ack(["late"])]


def test_a_batch_that_a_replay_drops_from_a_group_is_not_finished():
    counts = reported(committer({A: False, B: True}))
    counts.commit(GROUP, "commit")
    assert receive(counts, attempt(3, 9), A) == [Fail(["commit"]), Forget([GROUP[2]])]
    for one in GROUP[:2]:
        assert counts.report(one, B, 0, 0, f"late {one.txid}") == [Finish(one, f"late {one.txid}")]
        effects = counts.finished(one)
    assert effects == [Ack(["late 2"]), Forget([GROUP[1]])]
