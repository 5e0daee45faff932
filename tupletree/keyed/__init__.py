"""Keyed state and timers: bolts with a value per key, and timers in event time and processing time."""

from __future__ import annotations

from .access import KeyState, Timers
from .process import KeyedProcess

__all__ = ["KeyState", "KeyedProcess", "Timers"]
