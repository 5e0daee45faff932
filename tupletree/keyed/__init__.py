"""Keyed state and time: bolts with a value per key, timers in event time and processing time, and windows per key."""

from __future__ import annotations

from .access import KeyState, Timers
from .process import KeyedProcess
from .windows import CountWindow, KeyedWindow, Session, Sliding, Tumbling, WindowBounds

__all__ = [
    "CountWindow",
    "KeyState",
    "KeyedProcess",
    "KeyedWindow",
    "Session",
    "Sliding",
    "Timers",
    "Tumbling",
    "WindowBounds",
]
