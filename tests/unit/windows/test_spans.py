"""Spans by example: which tuples a window has, and when one has been in its last."""

from __future__ import annotations

import pytest

from tupletree.windows import Count, Duration
from tupletree.windows.lengths import Length
from tupletree.windows.spans import Spans

SECOND = 1_000_000


def taken(spans: Spans[str]) -> list[str]:
    """The windows that are due, each as a word."""
    words = []
    while (span := spans.next_due()) is not None:
        words.append("".join(span.items))
    return words


def fed(length: Length, slide: Length, rows: str, upto_s: int) -> Spans[str]:
    """Spans with a tuple for each letter, a second after the one before, and time at ``upto_s``."""
    spans: Spans[str] = Spans(length, slide)
    for at, letter in enumerate(rows):
        spans.add(letter, at * SECOND)
    spans.advance(upto_s * SECOND)
    return spans


@pytest.mark.parametrize(
    ("length", "slide", "windows", "evicted"),
    [
        (Count(3), Count(3), ["abc", "def"], "abcdef"),
        (Count(3), Count(2), ["ab", "bcd", "def", "fgh"], "abcdefg"),
        (Count(2), Count(3), ["bc", "ef"], "abcdefg"),
        (Duration(3), Duration(3), ["abc", "def"], "abcdef"),
        (Duration(3), Duration(2), ["ab", "bcd", "def"], "abcde"),
        (Duration(1), Duration(3), ["c", "f"], "abcdefgh"),
        (Count(3), Duration(3), ["abc", "def"], "abcde"),
        (Count(3), Duration(2), ["ab", "bcd", "def"], "abcde"),
        (Duration(3), Count(3), ["abc", "def"], "abcde"),
        (Duration(3), Count(2), ["ab", "bcd", "def", "fgh"], "abcde"),
    ],
)
def test_all_combinations_of_lengths(length: Length, slide: Length, windows: list[str], evicted: str) -> None:
    spans = fed(length, slide, "abcdefgh", upto_s=7)
    assert taken(spans) == windows
    assert "".join(spans.evict()) == evicted
    assert spans.evict() == []


def test_a_window_of_time_holds_what_is_of_its_start_and_not_what_is_of_its_end() -> None:
    assert taken(fed(Duration(2), Duration(2), "abcde", upto_s=4)) == ["ab", "cd"]


def test_what_is_due_waits_for_time_to_reach_it() -> None:
    spans = fed(Duration(2), Duration(2), "abcd", upto_s=1)
    assert taken(spans) == []
    spans.advance(2 * SECOND)
    assert taken(spans) == ["ab"]


def test_tuples_out_of_order_are_put_in_order_and_equal_times_stay_in_order_of_arrival() -> None:
    spans: Spans[str] = Spans(Count(5), Count(5))
    for letter, at_s in (("d", 3), ("a", 1), ("c", 2), ("e", 3), ("b", 1)):
        spans.add(letter, at_s * SECOND)
    spans.advance(3 * SECOND)
    assert taken(spans) == ["abcde"]


def test_new_and_expired_lead_from_each_window_to_the_next() -> None:
    spans = fed(Count(3), Count(1), "abcde", upto_s=9)
    found = []
    while (span := spans.next_due()) is not None:
        found.append(("".join(span.items), "".join(span.new), "".join(span.expired)))
    assert found == [("a", "a", ""), ("ab", "b", ""), ("abc", "c", ""), ("bcd", "d", "a"), ("cde", "e", "b")]


def test_what_was_in_the_last_window_expires_in_the_next_however_much_later_that_is() -> None:
    spans = fed(Duration(2), Duration(2), "ab", upto_s=2)
    assert taken(spans) == ["ab"]
    assert spans.evict() == ["a", "b"]
    spans.add("z", 1001 * SECOND)
    spans.advance(1002 * SECOND)
    span = spans.next_due()
    assert span is not None and (span.items, span.new, span.expired) == (["z"], ["z"], ["a", "b"])


def test_windows_of_time_begin_and_end_and_those_of_a_count_just_end() -> None:
    by_time = fed(Duration(4), Duration(2), "ab", upto_s=2).next_due()
    by_count = fed(Count(2), Count(2), "ab", upto_s=2).next_due()
    assert by_time is not None and (by_time.start_us, by_time.end_us) == (-2 * SECOND, 2 * SECOND)
    assert by_count is not None and (by_count.start_us, by_count.end_us) == (None, 1 * SECOND)


@pytest.mark.parametrize("length", [Duration(2), Count(2)])
def test_a_leap_of_time_evaluates_no_window_in_which_nothing_happens(length: Length) -> None:
    spans = fed(length, Duration(0.001), "a", upto_s=0)
    spans.add("z", 1_000_000_000 * SECOND)
    spans.advance(2_000_000_000 * SECOND)
    windows = taken(spans)
    assert len(windows) <= 2 * 2_000
    assert {windows[0], windows[-1]} <= {"a", "z", "az"}


def test_a_tuple_that_falls_between_windows_is_in_none_and_is_evicted() -> None:
    spans = fed(Duration(1), Duration(10), "abc", upto_s=10)
    assert taken(spans) == []
    assert spans.evict() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("length", "slide"),
    [
        (Count(4), Count(2)),
        (Count(2), Count(4)),
        (Duration(4), Duration(2)),
        (Count(4), Duration(2)),
        (Duration(4), Count(2)),
    ],
)
@pytest.mark.parametrize("cut", range(1, 12))
def test_spans_that_go_on_from_a_place_find_what_those_before_would_have(
    length: Length, slide: Length, cut: int
) -> None:
    letters = "abcdefghijkl"
    whole = fed(length, slide, letters, upto_s=cut)
    before = taken(whole)
    evicted = whole.evict()
    after: Spans[str] = Spans(length, slide)
    after.restore(whole.place, [(letters.index(letter) * SECOND, letter) for letter in whole.kept])
    for letter in whole.unseen:
        after.add(letter, letters.index(letter) * SECOND)
    for spans in (whole, after):
        spans.advance(20 * SECOND)
    rest = taken(whole)
    assert taken(after) == rest
    assert before + rest == taken(fed(length, slide, letters, upto_s=20))
    assert after.evict() == whole.evict()
    assert not set(evicted) & set("".join(rest))


def test_windows_end_at_multiples_of_the_slide_after_an_update_has_changed_it() -> None:
    before = fed(Duration(3), Duration(3), "abcdefghij", upto_s=9)
    assert taken(before) == ["abc", "def", "ghi"]
    before.evict()
    after: Spans[str] = Spans(Duration(5), Duration(5))
    after.restore(before.place, [])
    assert after.place.end_us == 9 * SECOND, "no window that was evaluated is again"
    for at_s, letter in enumerate("jklmnopq", 9):
        after.add(letter, at_s * SECOND)
    after.advance(16 * SECOND)
    assert taken(after) == ["j", "klmno"]
    assert after.place.end_us == 15 * SECOND
