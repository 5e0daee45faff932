"""map → filter → map, for every processor: the length of a word; the odd lengths; their halves."""

from __future__ import annotations


def is_odd(number: int) -> bool:
    """True for the lengths that are kept."""
    return number & 1 == 1


def half(number: int) -> int:
    """Return the half of a length, without its fraction."""
    return number >> 1


def is_kept(word: str) -> bool:
    """True if a word comes through the filter."""
    return is_odd(len(word))
