"""The checkpoint spout's rules: the table of steps, and what a failure leads to."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tupletree._checkpoints.coordinator import (
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    MIGRATION_PAUSE_S,
    CheckpointCoordinator,
    Phase,
    Record,
    Send,
)
from tupletree._checkpoints.steps import Action, Step, first_round

INTERVAL_S = 1.0


def coordinator(txid=0, phase=Phase.COMMITTED, epoch=1, fresh=(), older=()):
    return CheckpointCoordinator(epoch, txid, phase, fresh, INTERVAL_S, older)


def sent(effects):
    """The step of effects that send one."""
    [step] = [effect.step for effect in effects if isinstance(effect, Send)]
    return step


def recovered(**stored):
    one = coordinator(**stored)
    while one.is_recovering:
        one.acked(sent(one.next(0.0)).round, 0.0)
    return one


def test_the_first_thing_of_all_is_to_initialise_the_states():
    one = coordinator(fresh=["count"])
    assert one.next(0.0) == (Send(Step(first_round(1), Action.INITSTATE, 0, ("count",))),)
    assert one.next(100.0) == (), "one round at a time"


def test_a_checkpoint_is_prepared_and_committed_and_each_phase_is_stored_before_its_step():
    one = recovered()
    assert one.next(INTERVAL_S - 0.01) == ()
    record, send = one.next(INTERVAL_S)
    assert record == Record(1, Phase.PREPARING)
    assert (send.step.action, send.step.txid) == (Action.PREPARE, 1)
    record, send = one.acked(send.step.round, 2.0)
    assert record == Record(1, Phase.COMMITTING, is_whole=True)
    assert (send.step.action, send.step.txid) == (Action.COMMIT, 1)
    assert one.acked(send.step.round, 3.0) == (Record(1, Phase.COMMITTED),)
    assert one.next(3.0 + INTERVAL_S - 0.01) == ()
    assert sent(one.next(3.0 + INTERVAL_S)).txid == 2


def test_no_checkpoint_begins_while_one_is_held_and_one_in_progress_is_finished_first():
    one = recovered()
    prepare = sent(one.next(INTERVAL_S))
    assert one.hold(100.0) is None, "it is in progress"
    commit = sent(one.acked(prepare.round, 2.0))
    assert one.hold(100.0) is None
    one.acked(commit.round, 3.0)
    assert one.hold(100.0) == 1
    assert one.next(99.9) == ()
    one.hurry()
    assert one.next(99.9) == (), "not even in a hurry"
    assert sent(one.next(100.0)).txid == 2


def test_a_hold_ends_when_it_is_taken_back_and_does_not_keep_from_recovering():
    one = recovered(txid=5)
    assert one.hold(100.0) == 5
    assert one.hold(1.0) == 5
    prepare = sent(one.next(INTERVAL_S))
    assert one.hold(100.0) is None
    assert one.failed(prepare.round, 2.0)
    rollback = sent(one.next(2.0))
    one.acked(rollback.round, 2.1)
    assert one.hold(100.0) is None, "states are initialised first"
    one.acked(sent(one.next(2.2)).round, 2.3)
    assert (one.hold(100.0), one.next(50.0)) == (5, ())


@pytest.mark.parametrize("stored", [{}, {"txid": 5, "fresh": ["new"]}, {"txid": 5, "older": [("count", 1)]}])
def test_a_checkpoint_that_does_not_cover_all_components_is_not_held_but_followed_by_one_that_does(stored):
    one = recovered(**stored)
    assert one.hold(100.0) is None
    prepare = sent(one.next(MIGRATION_PAUSE_S))
    commit = sent(one.acked(prepare.round, 6.0))
    one.acked(commit.round, 6.1)
    assert one.hold(100.0) == prepare.txid


def test_a_hurried_checkpoint_begins_at_once_and_the_one_after_it_after_the_interval():
    one = recovered()
    one.hurry()
    [_, prepare] = one.next(0.0)
    one.hurry()
    [_, commit] = one.acked(prepare.step.round, 0.0)
    one.acked(commit.step.round, 0.0)
    assert one.next(INTERVAL_S - 0.01) == ()
    assert sent(one.next(INTERVAL_S)).txid == 2


def test_neither_a_recovery_nor_a_migration_is_hurried():
    one = coordinator()
    [init] = one.next(0.0)
    one.failed(init.step.round, 0.0)
    [init] = one.next(0.0)
    one.failed(init.step.round, 0.0)
    one.hurry()
    assert one.next(0.0) == (), "the second retry has a pause"
    one = recovered(older=[("count", 1)])
    one.hurry()
    assert one.next(MIGRATION_PAUSE_S - 0.01) == ()


@pytest.mark.parametrize(
    ("phase", "first", "record"),
    [
        (Phase.PREPARING, Action.ROLLBACK, Record(6, Phase.COMMITTED)),
        (Phase.COMMITTING, Action.COMMIT, Record(7, Phase.COMMITTED)),
    ],
)
def test_recovery_ends_what_the_stored_phase_left_open_and_then_initialises(phase, first, record):
    one = coordinator(txid=7, phase=phase)
    step = sent(one.next(0.0))
    assert (step.action, step.txid) == (first, 7)
    assert one.acked(step.round, 0.0) == (record,)
    step = sent(one.next(0.0))
    assert (step.action, step.txid) == (Action.INITSTATE, record.txid)
    assert one.acked(step.round, 0.0) == ()
    assert sent(one.next(INTERVAL_S)) == Step(step.round + 1, Action.PREPARE, record.txid + 1)


@pytest.mark.parametrize("action", list(Action))
def test_a_failure_of_any_step_leads_to_recovery(action):
    one = {
        Action.INITSTATE: coordinator,
        Action.ROLLBACK: lambda: coordinator(txid=4, phase=Phase.PREPARING),
        Action.COMMIT: lambda: coordinator(txid=4, phase=Phase.COMMITTING),
        Action.PREPARE: recovered,
    }[action]()
    step = sent(one.next(5.0))
    assert step.action is action
    assert one.failed(step.round, 5.0)
    again = sent(one.next(5.0))
    assert again.action is (Action.ROLLBACK if action is Action.PREPARE else action)
    assert again.round > step.round


def test_what_is_heard_of_an_earlier_round_changes_nothing():
    one = recovered()
    old = sent(one.next(INTERVAL_S)).round
    one.failed(old, INTERVAL_S)
    rollback = sent(one.next(INTERVAL_S))
    assert one.acked(old, INTERVAL_S) == ()
    assert not one.failed(old, INTERVAL_S)
    assert one.step == rollback


def test_after_repeated_failures_it_waits_longer_and_a_checkpoint_ends_that():
    one, now_s, pauses = coordinator(), 0.0, []
    for _ in range(9):
        began_s = now_s
        while not (effects := one.next(now_s)):
            now_s += FIRST_PAUSE_S / 4
        pauses.append(now_s - began_s)
        one.failed(sent(effects).round, now_s)
    assert pauses[:2] == [0.0, 0.0]
    assert pauses[2:] == sorted(pauses[2:])
    assert pauses[-1] == pytest.approx(MAX_PAUSE_S, abs=FIRST_PAUSE_S)


def test_rounds_of_a_later_epoch_are_higher_than_all_before():
    assert sent(coordinator(epoch=2).next(0.0)).round > sent(coordinator(epoch=1).next(0.0)).round + 1_000_000


def test_components_are_new_until_a_checkpoint_of_all_is_prepared():
    one = coordinator(txid=3, phase=Phase.COMMITTING, fresh=["new"])
    commit = sent(one.next(0.0))
    assert commit.fresh == ("new",), "it has nothing to commit"
    assert one.acked(commit.round, 0.0) == (Record(3, Phase.COMMITTED),)
    initialise = sent(one.next(0.0))
    assert initialise.fresh == ("new",), "it begins empty"
    one.acked(initialise.round, 0.0)
    prepare = sent(one.next(INTERVAL_S))
    record, send = one.acked(prepare.round, INTERVAL_S)
    assert record.is_whole
    assert send.step.fresh == ()


class Histories(RuleBasedStateMachine):
    """Any order of acks, failures, time, and successors that begin from what was stored."""

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.epoch = 1
        self.stored = (0, Phase.COMMITTED)
        self.prepared = None  # the txid that all have acked PREPARE of
        self.rounds = [-1]
        self.has_initialised = False
        self.one = coordinator()

    def carry_out(self, effects):
        for effect in effects:
            if isinstance(effect, Record):
                before, self.stored = self.stored[0], (effect.txid, effect.phase)
                assert abs(effect.txid - before) <= 1
                if effect.phase is Phase.COMMITTING:
                    assert self.prepared == effect.txid, "C2"
            else:
                self.check(effect.step)

    def check(self, step):
        assert step.round > self.rounds[-1], "C3"
        self.rounds.append(step.round)
        expected = {
            Action.PREPARE: (step.txid, Phase.PREPARING),
            Action.ROLLBACK: (step.txid, Phase.PREPARING),
            Action.COMMIT: (step.txid, Phase.COMMITTING),
            Action.INITSTATE: (step.txid, Phase.COMMITTED),
        }[step.action]
        assert self.stored == expected, "C1"
        assert step.action is not Action.PREPARE or self.has_initialised, "C4"

    @rule(pause_s=st.sampled_from([0.0, 0.1, 1.0, 5.0]))
    def time_passes(self, pause_s):
        self.now_s += pause_s
        self.carry_out(self.one.next(self.now_s))

    @precondition(lambda self: self.one.step is not None)
    @rule()
    def all_ack(self):
        step = self.one.step
        if step.action is Action.PREPARE:
            self.prepared = step.txid
        if step.action is Action.INITSTATE:
            self.has_initialised = True
        self.carry_out(self.one.acked(step.round, self.now_s))

    @precondition(lambda self: self.one.step is not None)
    @rule()
    def one_fails(self):
        self.has_initialised = False
        assert self.one.failed(self.one.step.round, self.now_s)

    @rule(data=st.data())
    def old_news(self, data):
        if len(self.rounds) > 2:
            before = (self.one.step, self.one.phase, self.one.txid)
            old = data.draw(st.sampled_from(self.rounds[:-1]))
            assert self.one.acked(old, self.now_s) == ()
            assert not self.one.failed(old, self.now_s)
            assert before == (self.one.step, self.one.phase, self.one.txid)

    @rule()
    def a_successor_takes_over(self):
        self.epoch += 1
        self.has_initialised = False
        self.one = coordinator(*self.stored, epoch=self.epoch)

    @invariant()
    def a_committed_checkpoint_stays(self):
        assert self.stored[0] >= 0


TestHistories = Histories.TestCase


def test_states_are_older_until_a_checkpoint_with_them_is_prepared_which_is_put_off():
    one = coordinator(txid=3, phase=Phase.PREPARING, older=[("count", 1)])
    one.acked(sent(one.next(0.0)).round, 0.0)
    initialise = sent(one.next(0.0))
    assert (initialise.action, initialise.older) == (Action.INITSTATE, (("count", 1),))
    one.acked(initialise.round, 0.0)
    assert one.next(MIGRATION_PAUSE_S - 0.01) == ()
    prepare = sent(one.next(MIGRATION_PAUSE_S))
    assert one.failed(prepare.round, 10.0)
    for _ in range(2):  # a rollback, and the states again
        again = sent(one.next(10.0))
        assert again.older == (("count", 1),)
        one.acked(again.round, 10.0)
    prepare = sent(one.next(10.0 + MIGRATION_PAUSE_S))
    record, send = one.acked(prepare.round, 16.0)
    assert record.is_whole
    assert send.step.older == ()
    one.acked(send.step.round, 16.0)
    assert sent(one.next(16.0 + INTERVAL_S)).action is Action.PREPARE
