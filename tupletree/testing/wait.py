"""Waiting for a condition with a deadline: what tests and start-up code do instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE_S = 0.005
_MAX_PAUSE_S = 0.1


def wait_until(
    predicate: Callable[[], T], timeout: float = 10.0, *, what: str = "", pause_s: float = _FIRST_PAUSE_S
) -> T:
    """Call ``predicate()`` until it returns something true, and return that.

    Pauses grow from ``pause_s`` to 100 ms. After ``timeout`` seconds raises TimeoutError, naming ``what`` was waited
    for and the last value seen. The predicate is called at least once, and once more after the deadline has passed, so
    that a machine that stalls does not fail a condition that holds. What the predicate raises is not caught.
    """
    deadline = time.monotonic() + timeout
    while True:
        expired = time.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        if expired:
            name = what or getattr(predicate, "__qualname__", repr(predicate))
            raise TimeoutError(f"{name}: not true within {timeout:g} s; the last value was {value!r}")
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        pause_s = min(pause_s * 1.5, _MAX_PAUSE_S)
