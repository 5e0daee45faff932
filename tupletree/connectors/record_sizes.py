"""The approximate memory that records take: for limits of what is read ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tupletree.connectors.messages import LogRecord

VALUE_BYTES: Final = 8
"""The assumed size of a number and of other values."""


def bytes_of(records: Sequence[LogRecord]) -> int:
    """Return about how many bytes messages have, each of which is bytes or a row of values."""
    total = 0
    for record in records:
        data = record.data
        total += len(data) if type(data) is bytes else _bytes_of_row(data)
    return total


def _bytes_of_row(row: Any) -> int:
    if not isinstance(row, list | tuple):
        return VALUE_BYTES
    total = 0
    for value in row:
        kind = type(value)
        if kind is str or kind is bytes:
            total += len(value)
        elif kind is dict:
            total += _bytes_of_row(tuple(value.values()))
        elif kind is list or kind is tuple:
            total += _bytes_of_row(value)
        else:
            total += VALUE_BYTES
    return total
