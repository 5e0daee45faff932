"""The hash of fields groupings for short ASCII strings and for integers, without encoding them first.

The hash equals ``hash_values`` of one value: the CRC-32 of its encoding. Source of the algorithm: CRC-32 with the
polynomial of IEEE 802.3, as in zlib, in its table-driven form (Sarwate, "Computation of Cyclic Redundancy Checks via
Table Look-Up", CACM 1988). Source of the encoding: the MessagePack format of strings and numbers.
"""

from __future__ import annotations  # pure

import zlib
from array import array
from typing import Any, Final

from tupletree._wire.codec import encode_columns

MAX_TEXT_LENGTH: Final = 31
"""Maximum length of a string hashed here: one byte at the start of the encoding holds the length."""
NUMBERS_END: Final = 2**60
"""Integers hashed here lie strictly between -NUMBERS_END and NUMBERS_END: Python's own hash of them is the number."""

_ASCII_END = 0x80
_MASK = 0xFFFFFFFF


class KeyHash:
    """Fast ``hash_values([key])`` for short ASCII strings and integers."""

    __slots__ = ("_begun", "_of_texts", "_table")

    def __init__(self) -> None:
        self._table = _table()
        self._begun = zlib.crc32(encode_columns([[0]], "", [""])[:-1]) ^ _MASK
        self._of_texts = _of_texts()

    def of(self, key: Any) -> int:
        """Return the 32-bit hash of a key, or -1 if the key cannot be hashed here."""
        if type(key) is str:
            return self._of_text(key) if len(key) <= MAX_TEXT_LENGTH else -1
        if type(key) is int and -NUMBERS_END < key < NUMBERS_END:
            return self._of_number(key)
        return -1

    def _of_text(self, text: str) -> int:
        crc = self._of_texts[len(text)]
        for character in text:
            code = ord(character)
            if code >= _ASCII_END:
                return -1
            crc = self._table[(crc ^ code) & 0xFF] ^ crc >> 8
        return crc ^ _MASK

    def _of_number(self, number: int) -> int:
        """Hash a number in its MessagePack form: the lowest byte alone, or a type byte and then 1, 2, 4 or 8 bytes."""
        if number == -1:
            number = -2  # Python's hash of -1
        crc = self._begun
        if -32 <= number < 128:
            return self._table[(crc ^ number) & 0xFF] ^ crc >> 8 ^ _MASK
        power = 0
        while power < 3 and (number if number >= 0 else 2 * ~number + 1) >> (8 << power):
            power += 1
        crc = self._table[(crc ^ (0xCC if number >= 0 else 0xD0) + power) & 0xFF] ^ crc >> 8
        shift = 8 << power
        while shift:
            shift -= 8
            crc = self._table[(crc ^ number >> shift) & 0xFF] ^ crc >> 8
        return crc ^ _MASK


def _table() -> array[int]:
    return array("I", [_table_entry(byte) for byte in range(256)])


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ 0xEDB88320 if byte & 1 else byte >> 1
    return byte


def _of_texts() -> array[int]:
    """Return, by string length, the CRC state before the first character."""
    heads = [encode_columns([["x" * size]], "", [""])[: -size or None] for size in range(MAX_TEXT_LENGTH + 1)]
    return array("I", [zlib.crc32(head) ^ _MASK for head in heads])
