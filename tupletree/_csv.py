"""Python's csv module without its limit for the length of a value, 128 KiB, which holds for the whole process."""

from __future__ import annotations  # pure

import csv
from typing import Final

_MAX_CHARACTERS: Final = 2**31 - 1

csv.field_size_limit(_MAX_CHARACTERS)

__all__ = ["csv"]
