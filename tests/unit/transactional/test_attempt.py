"""Which attempts are over."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.codec import decode_columns, decode_value, encode_columns, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree.attempt import Attempts, TransactionAttempt, first_attempt


def attempt(txid, number, epoch=1):
    return TransactionAttempt(txid, first_attempt(epoch) + number)


def test_an_attempt_names_its_transaction_and_its_epoch():
    assert attempt(3, 5, epoch=2).epoch == 2
    assert str(attempt(3, 5, epoch=2)) == "transaction 3 (attempt 2.5)"


def test_an_attempt_travels_between_workers_and_comes_back_as_one_object():
    columns = [[attempt(1, 0), attempt(1, 0)], ["a", "b"]]
    decoded = decode_columns(encode_columns(columns, "c", ["attempt", "word"]), 2, 2)
    assert decoded == columns
    assert type(decoded[0][0]) is TransactionAttempt
    assert decoded[0][0] is decoded[0][1]


def test_an_attempt_can_be_stored_grouped_by_and_pickled():
    one = attempt(7, 1)
    assert decode_value(encode_value({"last": one})) == {"last": one}
    assert hash_values([one], "c", ["attempt"]) == hash_values([TransactionAttempt(*one)], "c", ["attempt"])
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_newer_attempt_of_the_same_or_an_earlier_transaction_ends_an_older_one():
    attempts = Attempts()
    for one in (attempt(1, 0), attempt(2, 1), attempt(3, 2)):
        assert not attempts.is_over(one)
        attempts.saw(one)
    attempts.saw(attempt(2, 3))
    assert not attempts.is_over(attempt(1, 0))
    assert attempts.is_over(attempt(2, 1))
    assert attempts.is_over(attempt(3, 2))
    assert not attempts.is_over(attempt(3, 4))


def test_what_is_committed_is_over_and_what_was_older_than_it_too():
    attempts = Attempts()
    attempts.saw(attempt(1, 5))
    attempts.saw_committed(1)
    assert attempts.is_over(attempt(1, 5))
    assert attempts.is_over(attempt(2, 4))
    assert not attempts.is_over(attempt(2, 6))


def test_a_later_epoch_ends_every_attempt_of_the_ones_before():
    attempts = Attempts()
    attempts.saw(attempt(9, 0, epoch=2))
    assert attempts.is_over(attempt(4, 77, epoch=1))
    assert not attempts.is_over(attempt(4, 0, epoch=3))


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=40))
def test_what_a_coordinator_waits_for_is_never_taken_for_over(steps):
    """A coordinator begins, fails and commits; a task is told of everything, in order."""
    attempts = Attempts()
    active, committed, number = [], 0, 0
    for choice, commits in steps:
        if commits and active:
            committed = active.pop(0).txid
            attempts.saw_committed(committed)
        elif choice < len(active):
            del active[choice:]
        else:
            active.append(attempt(committed + len(active) + 1, number))
            number += 1
            assert not attempts.is_over(active[-1])
            attempts.saw(active[-1])
        assert not any(attempts.is_over(one) for one in active)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12), st.integers(1, 2))))
def test_an_attempt_that_ends_no_other_says_so(heard):
    attempts, living = Attempts(), []
    for one in (attempt(txid, number, epoch) for txid, number, epoch in heard):
        if attempts.is_over(one):
            continue
        ends_others = attempts.saw(one)
        over = [other for other in living if attempts.is_over(other)]
        assert ends_others or not over
        living = [other for other in living if other not in over] + [one]


@pytest.mark.parametrize("heard", [{0}, {1}, {2}, {0, 2}])
def test_a_task_that_heard_only_some_attempts_still_takes_no_living_one_for_over(heard):
    attempts = Attempts()
    living = [attempt(4, 10), attempt(5, 11), attempt(6, 12)]
    for index in heard:
        attempts.saw(living[index])
    assert not any(attempts.is_over(one) for one in living)
