"""Streams: programs of functions, which become topologies of spouts and bolts. See docs/guides/streams.md."""

from __future__ import annotations

from tupletree.streams.builder import StreamBuilder
from tupletree.streams.history import ParquetHistory
from tupletree.streams.stream import KeyedStream, ProcessedStream, Stream, Table, TimedStream, WindowedStream
from tupletree.streams.timed_heads import Windowed

__all__ = [
    "KeyedStream",
    "ParquetHistory",
    "ProcessedStream",
    "Stream",
    "StreamBuilder",
    "Table",
    "TimedStream",
    "Windowed",
    "WindowedStream",
]
