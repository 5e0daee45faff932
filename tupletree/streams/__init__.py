"""Streams: programs of functions, which become topologies of spouts and bolts. See docs/guides/streams.md."""

from __future__ import annotations

from tupletree.streams.builder import StreamBuilder
from tupletree.streams.stream import KeyedStream, Stream, Table, WindowedStream
from tupletree.streams.timed_heads import Windowed

__all__ = ["KeyedStream", "Stream", "StreamBuilder", "Table", "Windowed", "WindowedStream"]
