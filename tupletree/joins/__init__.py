"""Joins: of two streams within an interval of event time, and of a stream with a table. See docs/guides/joins.md."""

from __future__ import annotations

from .interval_join import IntervalJoin
from .table_join import TableJoin

__all__ = ["IntervalJoin", "TableJoin"]
