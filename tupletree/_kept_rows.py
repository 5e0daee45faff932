"""Rows that are kept, to be emitted after the call that made them."""

from __future__ import annotations  # pure

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


def kept_row(row: Any) -> Any:
    """Return a row as it is now, to be emitted later, or again: the same list may be used for the next row."""
    if type(row) is list:
        return row[:]
    if type(row) is tuple:
        return row
    if dataclasses.is_dataclass(row):
        return copy.copy(row)
    if isinstance(row, tuple | str | bytes | bytearray | set | frozenset | Mapping) or not isinstance(row, Iterable):
        return row  # a NamedTuple, or a value that is no row and that the emit refuses
    return list(row)
