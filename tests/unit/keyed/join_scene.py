"""Joins of views and clicks by user: of an interval, and of a stream with a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from tupletree import IntervalJoin, TableJoin
from tupletree.tuples import Tuple

SOURCES = {"views": [1], "clicks": [2]}


class Ads(IntervalJoin):
    key, event_time, late_stream = "user", "at", "late"
    max_lag = dt.timedelta(0)
    left, right = "views", "clicks"
    before, after = dt.timedelta(milliseconds=2), dt.timedelta(milliseconds=10)
    outputs = ["user", "ad", "clicked"]

    def join(self, left: Any, right: Any) -> Iterator[list[Any]]:
        one = left or right
        yield [one["user"], one["n"], (left is not None, right is not None)]


class Named(TableJoin):
    key = "user"
    stream, table = "views", "clicks"
    outputs = ["n", "row"]

    def join(self, left: Any, row: Any) -> Iterator[list[Any]]:
        yield [left["n"], row and row["n"]]

    def deleted(self, tup: Tuple) -> bool:
        return bool(tup["n"] == -1)


class NamedOrNot(Named):
    kind = "left"


class Versioned(NamedOrNot):
    event_time, max_lag, late_stream = "at", dt.timedelta(milliseconds=3), "late"
    versioned = True
