"""Root and edge ids: uniform 64-bit numbers, drawn many at a time.

A tree is taken for complete when the xor of its edges is 0, which by accident happens once in 2^64; so all that is
asked of the numbers is that they are uniform and independent. They need not be secret. ``random.Random``'s Mersenne
Twister is that, is seedable, and costs least when asked for thousands of bits in one call.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tupletree._wire.packed import unpack_u64

RandomBits = Callable[[int], int]


class RandomIds:
    """Ids from ``getrandbits``, asked for ``at_once`` of them in one call: id n is its bits from 64 n on."""

    __slots__ = ("_at", "_drawn", "_end", "_getrandbits")

    def __init__(self, getrandbits: RandomBits, at_once: int) -> None:
        self._getrandbits = getrandbits
        self._at = self._end = at_once
        self._drawn = array("Q", bytes(8 * at_once))

    def draw(self) -> int:
        """A number from 0 to 2^64 - 1."""
        at = self._at
        if at == self._end:
            self._refill()
            at = 0
        self._at = at + 1
        return self._drawn[at]

    def _refill(self) -> None:
        size = 8 * self._end
        self._drawn = unpack_u64(self._getrandbits(8 * size).to_bytes(size, "little"))
