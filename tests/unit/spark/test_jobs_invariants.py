"""Whatever arrives in whatever order, jobs.py keeps its promises; and rules broken on purpose are found out.

The machine plays the coordinator (which emits, replays, permits one commit at a time, dies and comes back), the driver
(whose answers may come after an attempt is over) and the clock.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as Step
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.spark.jobs import Ack, Cancel, Commit, Effect, Fail, Finish, Job, Jobs, Phase, Retries, Start, Stop

ACTIVE = 3
RETRIES = Retries(most=2, first_pause_s=1.0, longest_pause_s=3.0)
SETTINGS = settings(
    stateful_step_count=40, database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)  # fmt: skip
TO_FIND = settings(SETTINGS, max_examples=5000, phases=[Step.generate], report_multiple_bugs=False, print_blob=False)
"""As above; that there is a fault suffices, its smallest example is of no interest."""
SEED = 0
"""Finds each broken rule within 140 histories. A Hypothesis that draws otherwise finds them too, perhaps later."""


class Pipelines(RuleBasedStateMachine):
    make: Callable[[Retries], Jobs] = Jobs

    def __init__(self) -> None:
        super().__init__()
        self.jobs = type(self).make(RETRIES)
        self.now_s = 0.0
        # The coordinator.
        self.epoch = 0
        self.number = 0
        self.committed = 0
        self.active: dict[int, TransactionAttempt] = {}  # txid -> its attempt, of those that it waits for
        self.processed_txids: set[int] = set()
        self.permitted: TransactionAttempt | None = None
        # What was seen, for the rules as the docstrings have them.
        self.seen: list[TransactionAttempt] = []
        self.told_committed = 0
        self.tries: Counter[int] = Counter()
        self.faults: Counter[int] = Counter()
        self.stopped_at: int | None = None
        self.controls = itertools.count()
        self.owner: dict[int, TransactionAttempt] = {}  # control -> attempt
        self.settled: dict[int, str] = {}
        self.due_s: dict[TransactionAttempt, float] = {}
        # The driver.
        self.started: set[TransactionAttempt] = set()
        self.running: set[TransactionAttempt] = set()
        self.done: set[TransactionAttempt] = set()
        self.committing: list[TransactionAttempt] = []
        self.cancelled: set[TransactionAttempt] = set()

    def is_over(self, attempt: TransactionAttempt) -> bool:
        return attempt.txid <= self.told_committed or any(
            other.epoch > attempt.epoch or (other.txid <= attempt.txid and other.attempt > attempt.attempt)
            for other in self.seen
        )

    def control(self, attempt: TransactionAttempt) -> int:
        control = next(self.controls)
        self.owner[control] = attempt
        return control

    def apply(self, effects: list[Effect], failing: int | None = None) -> None:
        for effect in effects:
            match effect:
                case Start(job):
                    self.living(job)
                    assert job.attempt not in self.started, "started twice"
                    assert self.now_s >= self.due_s[job.attempt], "started before its pause was over"
                    self.started.add(job.attempt)
                    self.running.add(job.attempt)
                case Finish(job, control):
                    self.living(job)
                    self.finish(job.attempt, control)
                case Commit(job):
                    self.living(job)
                    assert job.attempt in self.done, "committed before it was processed"
                    assert job.attempt == self.permitted, "committed without the coordinator's permission"
                    self.committing.append(job.attempt)
                case Ack(control):
                    self.settle(control, "acked")
                    if self.owner[control] == self.permitted:
                        self.coordinator_records()
                case Fail(control):
                    self.settle(control, "failed")
                    self.hear_of_failure(self.owner[control], failing)
                case Cancel(attempt):
                    self.cancelled.add(attempt)
                case Stop(job, failures):
                    assert failures == self.faults[job.attempt.txid] >= 2
                    assert self.stopped_at is None or job.attempt.txid < self.stopped_at
                    self.stopped_at = job.attempt.txid

    def living(self, job: Job) -> None:
        assert not self.is_over(job.attempt), "something began for an attempt that is over"
        assert job.attempt not in self.cancelled, "something began for an attempt that was cancelled"
        assert self.stopped_at is None or job.attempt.txid < self.stopped_at, "something began behind a stop"

    def finish(self, attempt: TransactionAttempt, control: int) -> None:
        assert self.owner[control] == attempt
        self.settle(control, "acked")
        self.done.add(attempt)
        if self.active.get(attempt.txid) == attempt:
            self.processed_txids.add(attempt.txid)

    def hear_of_failure(self, attempt: TransactionAttempt, failing: int | None) -> None:
        if self.stopped_at is not None and attempt.txid >= self.stopped_at and not self.is_over(attempt):
            is_refused = attempt == self.permitted  # a commit of what has come to a stop
            assert is_refused or (failing is not None and failing < self.stopped_at), "a batch behind a stop failed"
        if self.active.get(attempt.txid) == attempt:
            self.coordinator_fails(attempt.txid)

    def settle(self, control: int, how: str) -> None:
        assert control not in self.settled, f"{how} after it was {self.settled[control]}"
        self.settled[control] = how

    def coordinator_fails(self, txid: int) -> None:
        for other in [other for other in self.active if other >= txid]:
            del self.active[other]
            self.processed_txids.discard(other)
        if self.permitted is not None and self.permitted.txid >= txid:
            self.permitted = None

    def coordinator_records(self) -> None:
        assert self.permitted is not None
        self.committed = self.permitted.txid
        del self.active[self.committed]
        self.processed_txids.discard(self.committed)
        self.permitted = None

    def deliver(self, attempt: TransactionAttempt, committed: int) -> None:
        self.told_committed = max(self.told_committed, committed)
        for counts in (self.tries, self.faults):
            for txid in [txid for txid in counts if txid <= self.told_committed]:
                del counts[txid]
        self.apply(self.jobs.saw_committed(committed))
        wanted = self.jobs.wants(attempt)
        assert (wanted is False) == (self.is_over(attempt) and attempt not in self.seen) or self.is_over(attempt)
        control = self.control(attempt)
        if wanted is None:
            self.settle(control, "acked")
        elif not wanted:
            self.settle(control, "failed")
        else:
            self.seen.append(attempt)
            tries = self.tries[attempt.txid]
            self.due_s[attempt] = self.now_s + (min(3.0, 2.0 ** (tries - 1)) if tries else 0.0)
            self.apply(self.jobs.batch(attempt, [], control, self.now_s))

    @precondition(lambda self: len(self.active) < ACTIVE)
    @rule()
    def coordinator_emits(self) -> None:
        txid = self.committed + 1 + len(self.active)
        self.number += 1
        attempt = self.active[txid] = TransactionAttempt(txid, first_attempt(self.epoch) + self.number)
        self.deliver(attempt, self.committed)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def a_batch_is_told_again(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.seen)), self.told_committed)

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def a_batch_times_out(self, data: st.DataObject) -> None:
        self.coordinator_fails(data.draw(st.sampled_from(sorted(self.active))))

    @rule(has_committed=st.booleans())
    def coordinator_dies(self, has_committed: bool) -> None:
        """``has_committed``: with another driver, while this one was cut off."""
        self.coordinator_fails(0)
        self.committed += has_committed
        self.epoch += 1
        self.number = 0

    @precondition(lambda self: self.permitted is None and self.committed + 1 in self.processed_txids)
    @rule()
    def coordinator_permits(self) -> None:
        self.permitted = self.active[self.committed + 1]
        self.apply(self.jobs.commit(self.permitted, self.control(self.permitted)))

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def a_permission_comes_late(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from(self.seen))
        if attempt not in self.active.values():
            kept, self.permitted = self.permitted, attempt if not self.is_over(attempt) else self.permitted
            self.apply(self.jobs.commit(attempt, self.control(attempt)))
            self.permitted = kept

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_job_is_done(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(attempt)
        self.apply(self.jobs.processed(attempt, 1))

    def fail(self, attempt: TransactionAttempt, is_own_fault: bool) -> None:
        counts = not self.is_over(attempt) and attempt not in self.cancelled
        if counts:
            self.tries[attempt.txid] += 1
            self.faults[attempt.txid] += is_own_fault
        effects = self.jobs.failed(attempt, is_own_fault=is_own_fault)
        self.apply(effects, failing=attempt.txid)
        if counts and not any(isinstance(effect, Stop) for effect in effects):
            left = [other for other in self.jobs.jobs if other.txid >= attempt.txid]
            assert not left, "the coordinator emits it again, but it goes on"

    @precondition(lambda self: self.running)
    @rule(data=st.data(), is_own_fault=st.booleans())
    def a_job_fails(self, data: st.DataObject, is_own_fault: bool) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(attempt)
        self.fail(attempt, is_own_fault)

    @precondition(lambda self: self.committing)
    @rule()
    def a_commit_is_done(self) -> None:
        self.apply(self.jobs.committed(self.committing.pop(0)))

    @precondition(lambda self: self.committing)
    @rule(is_own_fault=st.booleans())
    def a_commit_fails(self, is_own_fault: bool) -> None:
        self.fail(self.committing.pop(0), is_own_fault)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.apply(self.jobs.due(self.now_s))
        due_s = self.jobs.next_due_s()
        assert due_s is None or due_s > self.now_s

    @invariant()
    def every_control_is_settled_or_held(self) -> None:
        held = self.jobs.held()
        assert len(held) == len(set(held))
        assert set(self.owner) == self.settled.keys() | set(held)
        assert not self.settled.keys() & set(held)

    @invariant()
    def nothing_that_is_over_is_kept(self) -> None:
        assert not [attempt for attempt in self.jobs.jobs if self.is_over(attempt)]

    @invariant()
    def one_commit_at_a_time(self) -> None:
        assert sum(job.phase is Phase.COMMITTING for job in self.jobs.jobs.values()) <= 1

    @invariant()
    def behind_a_stop_everything_stands(self) -> None:
        assert self.jobs.stopped_at == self.stopped_at
        for attempt, job in self.jobs.jobs.items():
            assert (job.phase is Phase.STOPPED) == (self.stopped_at is not None and attempt.txid >= self.stopped_at)

    @invariant()
    def failures_are_counted_for_each_transaction(self) -> None:
        for txid in range(1, self.committed + ACTIVE + 1):
            assert self.jobs.failures(txid) == self.tries[txid]


@pytest.mark.sized
def test_the_invariants_hold() -> None:
    run_state_machine_as_test(Pipelines, settings=SETTINGS)


class OldAttemptsGoOn(Jobs):
    def _drop(self, jobs: Iterator[Job]) -> Iterator[Effect]:
        return iter(())


class StopsOneBatchOnly(Jobs):
    def _stop(self, txid: int) -> Iterator[Effect]:
        self.stopped_at = txid
        for job in self._jobs.values():
            if job.attempt.txid == txid:
                job.phase = Phase.STOPPED
                yield Cancel(job.attempt)


class CommitsWhateverItIsTold(Jobs):
    def commit(self, attempt: TransactionAttempt, control: Any) -> list[Effect]:
        job = self._jobs.get(attempt)
        if job is None:
            return [Fail(control)]
        job.phase, job.control = Phase.COMMITTING, control
        return [Commit(job)]


class KeepsTheControl(Jobs):
    def processed(self, attempt: TransactionAttempt, rows: int | None) -> list[Effect]:
        effects = super().processed(attempt, rows)
        for effect in effects:
            if isinstance(effect, Finish):
                effect.job.control = effect.control
        return effects


class StartsAtOnce(Jobs):
    def due(self, now_s: float) -> list[Effect]:
        return super().due(now_s + 1.0)


class NeverForgives(Jobs):
    def saw_committed(self, txid: int) -> list[Effect]:
        tries = dict(self._tries)
        effects = super().saw_committed(txid)
        self._tries.update(tries)
        return effects


class LetsLaterBatchesGoOn(Jobs):
    def failed(self, attempt: TransactionAttempt, *, is_own_fault: bool) -> list[Effect]:
        later = {other: job for other, job in self._jobs.items() if other.txid > attempt.txid}
        for other in later:
            del self._jobs[other]
        effects = super().failed(attempt, is_own_fault=is_own_fault)
        self._jobs.update(later)
        return effects


class CommitsAfterAReplay(Jobs):
    def batch(self, attempt: TransactionAttempt, splits: Any, control: Any, now_s: float) -> list[Effect]:
        kept = {other: job for other, job in self._jobs.items() if job.phase is Phase.PROCESSED}
        effects = super().batch(attempt, splits, control, now_s)
        self._jobs.update(kept)
        return effects


@pytest.mark.parametrize(
    "broken",
    [
        OldAttemptsGoOn, StopsOneBatchOnly, CommitsWhateverItIsTold, KeepsTheControl, StartsAtOnce, NeverForgives,
        LetsLaterBatchesGoOn, CommitsAfterAReplay,
    ],
)  # fmt: skip
def test_a_broken_rule_is_found_out(broken: Callable[[Retries], Jobs]) -> None:
    machine = type("Machine", (Pipelines,), {"make": staticmethod(broken)})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(seed(SEED)(machine), settings=TO_FIND)
