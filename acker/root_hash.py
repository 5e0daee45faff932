"""A keyed hash of roots: a bijection on 64 bits, with the same result for arrays and for single integers.

Roots come from outside. An attacker who does not know the key cannot choose roots that collide and slow down the table.
The key must be chosen at random, once per process.
"""

from __future__ import annotations  # pure

import numpy as np
from numpy.typing import NDArray

_WORD = (1 << 64) - 1
_SEEDS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_32 = np.uint64(32)


class KeyedHash:
    """Xor, multiply, fold, multiply. The key has 192 bits. High bits of a hash are better mixed than low bits."""

    def __init__(self, key: int) -> None:
        self._xor = (_SEEDS[0] ^ key) & _WORD
        self._first = (_SEEDS[1] ^ key >> 64) & _WORD | 1
        self._second = (_SEEDS[2] ^ key >> 128) & _WORD | 1
        self._keys = np.uint64(self._xor), np.uint64(self._first), np.uint64(self._second)

    def many(self, roots: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mixed = roots ^ self._keys[0]
        mixed *= self._keys[1]
        mixed ^= mixed >> _32
        mixed *= self._keys[2]
        return mixed

    def one(self, root: int) -> int:
        mixed = (root ^ self._xor) * self._first & _WORD
        return (mixed ^ mixed >> 32) * self._second & _WORD
