"""Functions of elements that are written or printed."""

from __future__ import annotations

from typing import Any


class Printer:
    """Prints elements, with their keys if ``has_key``."""

    def __init__(self, prefix: str, has_key: bool) -> None:
        self.prefix = prefix
        self.has_key = has_key

    def __call__(self, key: Any, element: Any) -> None:
        shown = f"{key}: {element}" if self.has_key else str(element)
        print(self.prefix + shown, flush=True)


class Row:
    """Makes a row of an element; of a pair of key and element if ``has_key``."""

    def __init__(self, record: Any, has_key: bool) -> None:
        self.record = record
        self.has_key = has_key

    def __call__(self, element: Any) -> Any:
        key, value = element if self.has_key else (None, element)
        first = [key] if self.has_key else []
        is_one = len(self.record._fields) == len(first) + 1
        try:
            return self.record(*first, *([value] if is_one else value))
        except TypeError:
            raise TypeError(f"sink: {element!r} must have the fields {', '.join(self.record._fields)}") from None
