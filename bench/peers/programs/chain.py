"""map → filter → map, for every processor: the length of a word; the odd lengths; their halves."""

from __future__ import annotations

from collections.abc import Sequence


def is_odd(number: int) -> bool:
    """True for the lengths that are kept."""
    return number & 1 == 1


def half(number: int) -> int:
    """Return the half of a length, without its fraction."""
    return number >> 1


def kept(words: Sequence[str]) -> int:
    """Return how many of the words come through the filter."""
    return sum([is_odd(len(word)) for word in words])
