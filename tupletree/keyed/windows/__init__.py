"""Windows per key: tumbling, sliding and session windows, in event time, processing time or numbers of tuples."""

from __future__ import annotations

from .keyed_window import KeyedWindow
from .kinds import CountWindow, Session, Sliding, Tumbling, WindowBounds

__all__ = ["CountWindow", "KeyedWindow", "Session", "Sliding", "Tumbling", "WindowBounds"]
