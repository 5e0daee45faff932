"""Root and edge ids: uniform 64-bit numbers, generated in bulk.

A tree is considered complete when the xor of its edges is 0, which happens by accident once in 2^64. So the numbers
need only be uniform and independent; they need not be secret. In plain Python, the fastest source is the Mersenne
Twister of ``random.Random``, asked for thousands of bits in one call. Most of that time is spent on making a long
integer and splitting it. When compiled, ``random.Random`` only seeds a generator in C.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Callable

from tupletree._wire.packed import unpack_u64

RandomBits = Callable[[int], int]

_WORD = 0xFFFFFFFFFFFFFFFF


class Xoshiro:
    """xoshiro256** 1.0, seeded with 256 bits that are not all 0.

    Source: Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", ACM TOMS 47(4), 2021. The
    period is 2^256 - 1, so the sequences of two tasks practically never overlap.
    """

    __slots__ = ("_a", "_b", "_c", "_d")

    def __init__(self, seed: int) -> None:
        self._a, self._b, self._c, self._d = (seed >> shift & _WORD for shift in (0, 64, 128, 192))

    def fill(self, numbers: array[int]) -> None:
        """Fill an array of 64-bit integers with the next numbers."""
        words = numbers
        a, b, c, d = self._a, self._b, self._c, self._d
        for at in range(len(words)):
            mixed = b * 5 & _WORD
            mixed = (mixed << 7 | mixed >> 57) & _WORD
            words[at] = mixed * 9 & _WORD
            shifted = b << 17 & _WORD
            c ^= a
            d ^= b
            b ^= c
            a ^= d
            c ^= shifted
            d = (d << 45 | d >> 19) & _WORD
        self._a, self._b, self._c, self._d = a, b, c, d


class RandomIds:
    """Ids from ``getrandbits``, generated ``at_once`` at a time: id n consists of the 64 bits from bit 64 n on.

    With ``is_seeded``, the first 256 bits seed a generator instead, which is faster when compiled
    (``Environment.ids_are_seeded``).
    """

    __slots__ = ("_at", "_drawn", "_end", "_generator", "_getrandbits")

    def __init__(self, getrandbits: RandomBits, at_once: int, is_seeded: bool) -> None:
        self._getrandbits = getrandbits
        self._at = self._end = at_once
        self._drawn = array("Q", bytes(8 * at_once))
        self._generator = Xoshiro(getrandbits(256) or 1) if is_seeded else None

    def draw(self) -> int:
        """Return a number from 0 to 2^64 - 1."""
        at = self._at
        if at == self._end:
            self._refill()
            at = 0
        self._at = at + 1
        return self._drawn[at]

    def _refill(self) -> None:
        if self._generator is not None:
            self._generator.fill(self._drawn)
        else:
            size = 8 * self._end
            self._drawn = unpack_u64(self._getrandbits(8 * size).to_bytes(size, "little"))
