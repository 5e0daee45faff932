"""The reasons of failed trees on their way: bounded, and never a reason to fail."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import FailedException
from tupletree._wire.fail_reasons import MAX_BYTES, FailReason, WaitingReasons, decode, encode

REASONS = st.builds(FailReason, st.text(max_size=300), st.integers(0, 2**31), st.text(), st.text(), st.booleans())


@given(REASONS)
def test_a_reason_arrives(reason: FailReason) -> None:
    assert decode(encode(reason)) == reason or len(reason.error) + len(reason.traceback) > 400


@pytest.mark.parametrize("text", ["x", "ä", "字", "🌳", "\ud800"])
def test_a_long_reason_is_cut(text: str) -> None:
    data = encode(FailReason("step", 1, text * 10_000, text * 10_000))
    reason = decode(data)
    assert len(data) <= MAX_BYTES and reason is not None
    assert reason.error and (text * 10_000).startswith(reason.error) and (text * 10_000).endswith(reason.traceback)


@given(st.binary(max_size=40))
def test_rubbish_is_no_reason(data: bytes) -> None:
    assert decode(data) is None or isinstance(decode(data), FailReason)
    assert decode(b"") is None and decode(b"\x95\x01\x02\x03\x04\x05") is None


def test_the_reason_of_an_exception_names_it_and_where_it_was_raised() -> None:
    def lookup() -> None:
        raise FailedException("no such customer", retry=False)

    try:
        lookup()
    except FailedException as error:
        reason = FailReason.of("enrich", 4, error)
    assert (reason.component, reason.task, reason.error) == ("enrich", 4, "FailedException: no such customer")
    assert "in lookup" in reason.traceback and not reason.retry
    assert FailReason.of("enrich", 4, "too late") == FailReason("enrich", 4, "too late")
    assert FailReason.of("enrich", 4, None) == FailReason("enrich", 4)


def test_each_reason_has_the_lines_of_its_own_code() -> None:
    def raises(number: int) -> None:
        if number % 2:
            raise FailedException("odd")
        raise FailedException("even")

    def lines(function: Callable[[int], None], number: int) -> str:
        try:
            function(number)
        except FailedException as error:
            return FailReason.of("step", 1, error).traceback
        raise AssertionError

    for _ in range(2):
        assert 'raise FailedException("odd")' in lines(raises, 1) and 'raise FailedException("even")' in lines(
            raises, 2
        )
    for number in range(600):  # more than are kept; the code of the ones before is gone, and its memory used again
        scope: dict[str, Any] = {"FailedException": FailedException}
        exec(compile("def made(number):\n    raise FailedException(number)", f"made-{number}.py", "exec"), scope)
        assert f'"made-{number}.py", line 2, in made' in lines(scope["made"], number)


def test_reasons_of_one_place_differ_in_text_task_and_retry() -> None:
    def reason(task: int, text: str, *, retry: bool) -> FailReason:
        try:
            raise FailedException(text, retry=retry)
        except FailedException as error:
            return FailReason.of("step", task, error)

    for number in range(100):  # more than are kept of a place
        for retry in (True, False):
            told = reason(number % 3, f"number {number}", retry=retry)
            assert told[:3] == ("step", number % 3, f"FailedException: number {number}") and told.retry is retry
    assert reason(1, "the same", retry=True) is reason(1, "the same", retry=True)


def test_long_texts_of_errors_are_not_kept() -> None:
    """A million characters each, as of errors that show a row."""

    def fail(number: int) -> None:
        raise ValueError(f"{number}: {'x' * 1_000_000}")

    tracemalloc.start()
    try:
        for number in range(15):
            with pytest.raises(ValueError) as caught:
                fail(number)
            FailReason.of("split", 3, caught.value)
            del caught
        assert tracemalloc.get_traced_memory()[0] < 3_000_000
    finally:
        tracemalloc.stop()


def test_the_end_of_a_long_traceback_is_kept() -> None:
    def deep(levels: int) -> None:
        if levels == 0:
            raise FailedException("at the bottom")
        deep(levels - 1)

    for levels in (30, 31):
        try:
            deep(levels)
        except FailedException as error:
            shown = FailReason.of("step", 1, error).traceback
        assert shown.count("in deep") == 10 and shown.endswith('raise FailedException("at the bottom")\n')


def test_waiting_reasons_are_bounded_by_bytes() -> None:
    waiting = WaitingReasons(most=100)
    for root in range(20):
        waiting.add({root: bytes(10)})
    assert sorted(waiting.take(range(20))) == list(range(10, 20))
    assert waiting.take(range(20)) == {}
    waiting.add({1: bytes(60)})
    waiting.add({1: bytes(90)})
    assert waiting.take([1]) == {1: bytes(90)}, "the newest reason of a root counts, once"
