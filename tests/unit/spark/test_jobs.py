"""What is done next about each batch of a pipeline: one test for each transition."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.spark.jobs import Ack, Cancel, Commit, Effect, Fail, Finish, Jobs, Phase, Retries, Start, Stop

RETRIES = Retries(most=3, first_pause_s=1.0, longest_pause_s=3.0)


def at(txid: int, attempt: int = 1) -> TransactionAttempt:
    return TransactionAttempt(txid, attempt)


def started(*attempts: TransactionAttempt) -> Jobs:
    """Batches whose Spark jobs run; the control of each is ``b<txid>``."""
    jobs = Jobs(RETRIES)
    for attempt in attempts:
        jobs.batch(attempt, [["split"]], f"b{attempt.txid}", 0.0)
    return jobs


def said(effects: list[Effect]) -> list[tuple[Any, ...]]:
    """Effects as tuples that are short to write down."""
    return [_said(effect) for effect in effects]


def _said(effect: Effect) -> tuple[Any, ...]:
    match effect:
        case Start(job) | Commit(job) | Stop(job):
            return (type(effect), job.attempt)
        case Finish(job, control):
            return (Finish, job.attempt, control)
        case Cancel(attempt):
            return (Cancel, attempt)
        case Ack(control) | Fail(control):
            return (type(effect), control)


def phases(jobs: Jobs) -> dict[int, Phase]:
    return {job.attempt.txid: job.phase for job in jobs.jobs.values()}


def test_the_life_of_a_batch() -> None:
    jobs = Jobs(RETRIES)
    assert jobs.wants(at(1)) is True
    assert said(jobs.batch(at(1), [], "batch", 0.0)) == [(Start, at(1))]
    assert jobs.held() == ["batch"]
    assert said(jobs.processed(at(1), 7)) == [(Finish, at(1), "batch")]
    assert jobs.held() == [], "the coordinator has its answer and waits for nothing"
    assert said(jobs.commit(at(1), "commit")) == [(Commit, at(1))]
    assert jobs.held() == ["commit"]
    assert said(jobs.committed(at(1))) == [(Ack, "commit")]
    assert not jobs.jobs


def test_several_batches_are_started_side_by_side() -> None:
    assert phases(started(at(1), at(2), at(3))) == dict.fromkeys((1, 2, 3), Phase.RUNNING)


def test_a_batch_that_is_known_is_not_wanted_again_and_one_that_is_over_never() -> None:
    jobs = started(at(1, 5), at(2, 6))
    assert jobs.wants(at(1, 5)) is None
    assert jobs.wants(at(2, 4)) is False
    jobs.saw_committed(1)
    assert jobs.wants(at(1, 9)) is False


def test_a_new_attempt_cancels_the_old_ones_of_its_transaction_and_of_later_ones() -> None:
    jobs = started(at(1, 1), at(2, 2), at(3, 3))
    assert said(jobs.batch(at(2, 4), [], "again", 1.0)) == [
        (Cancel, at(2, 2)), (Fail, "b2"), (Cancel, at(3, 3)), (Fail, "b3"), (Start, at(2, 4)),
    ]  # fmt: skip
    assert set(jobs.jobs) == {at(1, 1), at(2, 4)}


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.PROCESSED, Phase.COMMITTING])
def test_what_is_told_of_an_attempt_that_is_over_is_heard_by_nobody(phase: Phase) -> None:
    jobs = started(at(1, 1))
    if phase is not Phase.RUNNING:
        jobs.processed(at(1, 1), 1)
    if phase is Phase.COMMITTING:
        jobs.commit(at(1, 1), "c")
    jobs.batch(at(1, 2), [], "again", 0.0)
    assert jobs.processed(at(1, 1), 1) == jobs.committed(at(1, 1)) == jobs.failed(at(1, 1), is_own_fault=True) == []
    assert said(jobs.commit(at(1, 1), "late")) == [(Fail, "late")]
    assert phases(jobs) == {1: Phase.RUNNING} and jobs.failures(1) == 0


def test_a_commit_of_what_a_driver_that_is_gone_has_processed_fails() -> None:
    assert said(Jobs(RETRIES).commit(at(4), "c")) == [(Fail, "c")]


@pytest.mark.parametrize("is_told_twice", [False, True])
def test_a_commit_before_the_job_is_done_or_after_it_began_fails(is_told_twice: bool) -> None:
    jobs = started(at(1))
    if is_told_twice:
        jobs.processed(at(1), 1)
        jobs.commit(at(1), "first")
    assert said(jobs.commit(at(1), "c")) == [(Fail, "c")]
    assert phases(jobs) == {1: Phase.COMMITTING if is_told_twice else Phase.RUNNING}


def test_when_a_job_fails_the_later_ones_are_cancelled_with_it_and_earlier_ones_are_not() -> None:
    jobs = started(at(1, 1), at(2, 2), at(3, 3), at(4, 4))
    jobs.processed(at(3, 3), 1)
    assert said(jobs.failed(at(2, 2), is_own_fault=True)) == [
        (Cancel, at(2, 2)), (Fail, "b2"), (Cancel, at(3, 3)), (Cancel, at(4, 4)), (Fail, "b4"),
    ]  # fmt: skip
    assert phases(jobs) == {1: Phase.RUNNING}


def test_when_a_commit_fails_its_own_control_is_the_commits() -> None:
    jobs = started(at(1))
    jobs.processed(at(1), 1)
    jobs.commit(at(1), "c1")
    assert said(jobs.failed(at(1), is_own_fault=False)) == [(Cancel, at(1)), (Fail, "c1")]


def test_what_has_committed_by_another_driver_is_cancelled() -> None:
    jobs = started(at(1), at(2))
    assert said(jobs.saw_committed(1)) == [(Cancel, at(1)), (Fail, "b1")]
    assert jobs.saw_committed(1) == [], "said once"


def test_pauses_double_up_to_the_longest_and_a_commit_forgets_them() -> None:
    jobs = Jobs(Retries(None, 1.0, 3.0))
    waits = []
    for attempt in range(1, 6):
        jobs.batch(at(1, attempt), [], attempt, 100.0)
        waits.append((jobs.next_due_s() or 100.0) - 100.0)
        jobs.due(200.0)
        jobs.failed(at(1, attempt), is_own_fault=False)
    assert waits == [0.0, 1.0, 2.0, 3.0, 3.0]
    assert jobs.failures(1) == 5
    jobs.saw_committed(1)
    assert jobs.failures(1) == 0


def test_a_batch_that_waits_starts_when_it_is_due_and_not_before() -> None:
    jobs = started(at(1, 1))
    jobs.failed(at(1, 1), is_own_fault=True)
    assert said(jobs.batch(at(1, 2), [], "again", 10.0)) == []
    assert (jobs.due(10.9), jobs.next_due_s(), jobs.held()) == ([], 11.0, ["again"])
    assert said(jobs.due(11.0)) == [(Start, at(1, 2))]
    assert jobs.due(11.0) == [] and jobs.next_due_s() is None


def test_a_batch_behind_one_that_failed_starts_without_a_pause_of_its_own() -> None:
    jobs = started(at(1, 1))
    jobs.failed(at(1, 1), is_own_fault=True)
    jobs.batch(at(1, 2), [], "b1", 10.0)
    assert said(jobs.batch(at(2, 3), [], "b2", 10.0)) == [(Start, at(2, 3))]


def fail_again(jobs: Jobs, txid: int, first: int, *, is_own_fault: bool = True) -> list[tuple[Any, ...]]:
    jobs.batch(at(txid, first), [], f"b{txid}.{first}", 0.0)
    jobs.due(1000.0)
    return said(jobs.failed(at(txid, first), is_own_fault=is_own_fault))


def test_a_batch_that_fails_too_often_stops_the_pipeline_and_its_control_is_held() -> None:
    jobs = Jobs(RETRIES)
    fail_again(jobs, 2, 1)
    fail_again(jobs, 2, 2, is_own_fault=False)
    assert fail_again(jobs, 2, 3)[-1] == (Fail, "b2.3"), "a failure that is not its own does not count"
    assert fail_again(jobs, 2, 4) == [(Stop, at(2, 4)), (Cancel, at(2, 4))]
    assert jobs.stopped_at == 2 and jobs.held() == ["b2.4"]
    assert jobs.due(10_000.0) == []


def test_a_stop_stops_what_runs_behind_it_and_what_comes_behind_it() -> None:
    jobs = Jobs(Retries(1, 1.0, 1.0))
    for txid in (1, 2, 3, 4):
        jobs.batch(at(txid, txid), [], f"b{txid}", 0.0)
    jobs.processed(at(4, 4), 1)
    assert said(jobs.failed(at(2, 2), is_own_fault=True)) == [
        (Stop, at(2, 2)), (Cancel, at(2, 2)), (Cancel, at(3, 3)), (Cancel, at(4, 4)),
    ]  # fmt: skip
    assert jobs.held() == ["b1", "b2", "b3"], "b4 was acked when it was processed"
    assert jobs.failed(at(3, 3), is_own_fault=True) == jobs.processed(at(3, 3), 1) == []
    assert said(jobs.commit(at(4, 4), "c4")) == [(Fail, "c4")]
    assert jobs.batch(at(5, 5), [], "b5", 0.0) == [] and "b5" in jobs.held()
    assert jobs.stopped_at == 2


def test_what_is_before_the_batch_that_stopped_goes_on_to_its_commit() -> None:
    jobs = Jobs(Retries(1, 1.0, 1.0))
    for txid in (1, 2):
        jobs.batch(at(txid, txid), [], f"b{txid}", 0.0)
    jobs.failed(at(2, 2), is_own_fault=True)
    assert said(jobs.processed(at(1, 1), 1)) == [(Finish, at(1, 1), "b1")]
    assert said(jobs.commit(at(1, 1), "c1")) == [(Commit, at(1, 1))]
    assert said(jobs.committed(at(1, 1))) == [(Ack, "c1")]
    assert jobs.saw_committed(1) == [] and jobs.held() == ["b2"]


def test_an_earlier_batch_that_stops_too_moves_the_stop_and_a_later_one_cannot() -> None:
    jobs = Jobs(Retries(1, 1.0, 1.0))
    for txid in (1, 2, 3):
        jobs.batch(at(txid, txid), [], f"b{txid}", 0.0)
    jobs.failed(at(2, 2), is_own_fault=True)
    jobs.failed(at(3, 3), is_own_fault=True)
    assert jobs.stopped_at == 2
    assert said(jobs.failed(at(1, 1), is_own_fault=True)) == [(Stop, at(1, 1)), (Cancel, at(1, 1))]
    assert jobs.stopped_at == 1


def test_a_new_coordinators_attempt_at_the_stopped_batch_is_held_in_place_of_the_old_one() -> None:
    jobs = Jobs(Retries(1, 1.0, 1.0))
    jobs.batch(at(2, 1), [], "old", 0.0)
    jobs.failed(at(2, 1), is_own_fault=True)
    assert said(jobs.batch(at(2, 1 << 32), [], "new", 0.0)) == [(Cancel, at(2, 1)), (Fail, "old")]
    assert jobs.held() == ["new"] and phases(jobs) == {2: Phase.STOPPED}


def test_without_a_limit_nothing_ever_stops() -> None:
    jobs = Jobs(Retries(None, 0.0, 0.0))
    assert all(fail_again(jobs, 1, attempt)[-1][0] is Fail for attempt in range(1, 50))
    assert jobs.stopped_at is None
