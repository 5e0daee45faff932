"""The demo's judge: it must accept what at least once allows, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest

from examples.demo.truth import Judgement, Outcome, judge

TEXT = ["a b", "b c", "d"]
LINES = 5  # a b | b c | d | a b | b c
CLEAN = Outcome(acked={line: False for line in range(LINES)}, counts=[{"a": 2, "b": 4}, {"c": 2, "d": 1}])


def judged(outcome: Outcome) -> Judgement:
    return judge(LINES, TEXT, str.split, outcome)


def with_counts(**changes: int) -> Outcome:
    first, second = dict(CLEAN.counts[0]), dict(CLEAN.counts[1])
    for word, count in changes.items():
        (first if word in first else second)[word] = count
    return dataclasses.replace(CLEAN, counts=[first, second])


def test_a_run_without_replays_must_be_exact() -> None:
    judgement = judged(CLEAN)
    assert judgement.held
    assert (judgement.words, judgement.counted, judgement.distinct, judgement.exact) == (9, 9, 4, 4)
    assert (judgement.acked, judgement.replayed, judgement.untouched) == (5, 0, 4)


def test_words_of_a_replayed_line_may_be_counted_twice() -> None:
    outcome = dataclasses.replace(with_counts(b=5, c=3), acked={**CLEAN.acked, 4: True})
    judgement = judged(outcome)
    assert judgement.held
    assert (judgement.replayed, judgement.exact, judgement.untouched) == (1, 2, 2)


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (dataclasses.replace(CLEAN, acked={0: False, 1: False, 3: False, 4: False}), "never acked"),
        (dataclasses.replace(CLEAN, acked={**CLEAN.acked, 5: False}), "do not exist"),
        (with_counts(b=3), "too seldom, such as 'b': 3 instead of 4"),
        (with_counts(d=2), "counted too often, such as 'd': 2 instead of 1"),
        (with_counts(e=1), "counted too often, such as 'e': 1 instead of 0"),
        (dataclasses.replace(CLEAN, counts=[{"a": 2, "b": 2}, {"b": 2, "c": 2, "d": 1}]), "more than one count task"),
    ],
)
def test_each_breach_is_a_fault(outcome: Outcome, fault: str) -> None:
    judgement = judged(outcome)
    assert not judgement.held
    assert any(fault in sentence for sentence in judgement.faults), judgement.faults


def test_a_word_of_no_replayed_line_must_be_exact_even_if_others_are_replayed() -> None:
    outcome = dataclasses.replace(with_counts(d=2), acked={**CLEAN.acked, 0: True})
    assert not judged(outcome).held
