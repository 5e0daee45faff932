"""Counts of the tuples of a request: complete exactly when all were received."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tupletree.drpc.counting import RequestCounts

ME = 7


@given(
    st.dictionaries(st.integers(1, 5), st.integers(0, 4), min_size=1),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_a_batch_is_complete_with_the_last_report_and_never_if_a_tuple_is_lost(sent, draw, loses) -> None:  # type: ignore[no-untyped-def]
    counts = RequestCounts(ME, len(sent), 60)
    lost = draw.choice([sender for sender, number in sent.items() if number] or [0]) if loses else 0
    streams = {sender: ["tuple"] * (number - (sender == lost)) + ["report"] for sender, number in sent.items()}
    complete = 0
    reports = 0
    while any(streams.values()):
        sender = draw.choice([sender for sender, left in streams.items() if left])
        batch = counts.batch("a", 0)
        if streams[sender].pop(0) == "tuple":
            batch.received[sender] = batch.received.get(sender, 0) + 1
            continue
        reports += 1
        if counts.report(batch, sender, [3, 9, ME, sent[sender]]):
            assert reports == len(sent)
            complete += 1
    assert complete == (0 if lost else 1)
    assert (counts.batch("a", 0).error is not None) == bool(lost)


def test_a_task_to_which_nothing_was_sent_is_complete() -> None:
    counts = RequestCounts(ME, 1, 60)
    assert counts.report(counts.batch("a", 0), 1, [3, 9])


def test_tuples_of_a_task_that_has_not_reported_are_an_error() -> None:
    counts = RequestCounts(ME, 1, 60)
    batch = counts.batch("a", 0)
    batch.received[2] = 1
    assert not counts.report(batch, 1, []) and "has not reported" in str(batch.error)


def test_old_requests_are_forgotten() -> None:
    counts = RequestCounts(ME, 1, 60)
    counts.batch("old", 0)
    counts.batch("young", 50)
    counts.batch("new", 61)
    assert len(counts) == 2
    counts.forget("new")
    assert len(counts) == 1
