"""Windows over streams: bolts that process, for example, the tuples of the last minute or the last 1,000 tuples."""

from __future__ import annotations

from .bolt import WindowedBolt
from .lengths import Count, Duration
from .stateful import StatefulWindowedBolt
from .window import Window

__all__ = ["Count", "Duration", "StatefulWindowedBolt", "Window", "WindowedBolt"]
