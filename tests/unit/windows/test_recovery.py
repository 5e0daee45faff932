"""What a checkpoint remembers of windows, and what replays are after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import InternalError
from tupletree.windows.recovery import Name, Recovery, Remembered, Replay
from tupletree.windows.spans import Place

A, B = ("a", "default", 1), ("a", "default", 2)

names = st.lists(st.tuples(st.sampled_from([A, B]), st.one_of(st.integers(0, 2**60), st.text(max_size=3))), max_size=20)
places = st.builds(Place, st.one_of(st.none(), st.integers(-(2**60), 2**60)), st.integers(0, 5))


@given(places, names, names)
def test_what_is_stored_is_read_again(place: Place, kept: list[Name], evicted: list[Name]) -> None:
    remembered = Remembered(place, kept, evicted)
    assert Remembered.decode(decode_value(encode_value(remembered.encode()))) == remembered


@pytest.mark.parametrize("stored", [[], [[1], [], []], [[1, 2], 3, []], None])
def test_what_nobody_stored_is_refused(stored: list[object]) -> None:
    with pytest.raises(InternalError, match="the stored windows cannot be read"):
        Remembered.decode(stored)


def test_replays_are_what_the_checkpoint_says_once_and_new_after_that() -> None:
    recovery: Recovery[str] = Recovery(Remembered(Place(), [(A, 1), (B, 1)], [(A, 2)]), until_s=10)
    judged = [recovery.judge(name, "") for name in ((A, 2), (A, 2), (A, 1), (A, 1), (B, 2))]
    assert judged == [Replay.EVICTED, Replay.NEW, Replay.KEPT, Replay.NEW, Replay.NEW]


def test_what_was_kept_is_put_back_in_its_order_and_windows_wait_for_all_of_it() -> None:
    recovery: Recovery[str] = Recovery(Remembered(Place(), [(A, 1), (B, 1), (A, 3)], [(A, 2)]), until_s=10)
    for name, tup in (((A, 3), "third"), ((A, 1), "first")):
        recovery.judge(name, tup)
    assert (recovery.is_complete(0), recovery.missing) == (False, 1)
    recovery.judge((B, 1), "second")
    assert (recovery.is_complete(0), recovery.kept) == (True, ["first", "second", "third"])
    assert (recovery.is_over(0), recovery.evicted) == (False, [(A, 2)])
    recovery.judge((A, 2), "")
    assert recovery.is_over(0)


def test_what_does_not_come_back_is_given_up_in_time() -> None:
    recovery: Recovery[str] = Recovery(Remembered(Place(), [(A, 1)], [(A, 2)]), until_s=10)
    assert (recovery.is_complete(9.9), recovery.is_complete(10), recovery.is_over(9.9), recovery.is_over(10)) == (
        False,
        True,
        False,
        True,
    )


def test_a_task_without_a_checkpoint_has_nothing_to_wait_for() -> None:
    assert Recovery[str](Remembered(Place()), until_s=10).is_over(0)
