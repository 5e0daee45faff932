"""Keys hashed without encoding them: the same number as with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.value_hash import hash_values
from tupletree.worker.core.key_hash import MAX_TEXT_LENGTH, NUMBERS_END, KeyHash

ascii_texts = st.text(st.characters(max_codepoint=127), max_size=MAX_TEXT_LENGTH)
powers = [sign * 2**power + more for power in range(60) for sign in (1, -1) for more in (-1, 0, 1)]
numbers = st.one_of(st.integers(-NUMBERS_END + 1, NUMBERS_END - 1), st.sampled_from(powers))


@given(st.one_of(ascii_texts, numbers))
def test_the_hash_is_that_of_the_encoding(key: str | int) -> None:
    assert KeyHash().of(key) == hash_values([key], "c", ["f"])


@pytest.mark.parametrize(
    "key",
    [
        "x" * (MAX_TEXT_LENGTH + 1),
        "é",
        "x\x80",
        NUMBERS_END,
        -NUMBERS_END,
        2**200,
        True,
        1.0,
        None,
        b"x",
        ("x",),
        ["x"],
        {},
    ],
    ids=repr,
)
def test_other_keys_are_left_to_the_encoding(key: Any) -> None:
    assert KeyHash().of(key) == -1
