"""Waiting for a condition with a deadline, as a replacement for sleeping in tests and start-up code."""

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
    """Call ``predicate()`` until the result is true, and return the result.

    Pauses grow from ``pause_s`` to 100 ms. After ``timeout`` seconds, raises TimeoutError with ``what`` and the last
    value in its message. The predicate is called at least once, and once more after the deadline, so that a stall of
    the machine does not fail a condition that holds. Exceptions from the predicate propagate.
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
