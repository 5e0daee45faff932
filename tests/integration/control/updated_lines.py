"""Versions of a topology that counts the lines of files, as the source of a file to submit."""

from __future__ import annotations

_SOURCE = """
from tupletree import StatefulBolt, TopologyBuilder
from tupletree.connectors.files import FileSpout


class Lines(FileSpout):
    {spout}


class Count(StatefulBolt):
{methods}

def topology():
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", Lines({files!r}), 2)
    builder.set_bolt("count", Count(), {tasks}).fields_grouping(lines, "line")
    builder.set_bolt("{other}", Count()).fields_grouping(lines, "line")
    return builder.create_topology()
"""

_ADDS = """
    def execute(self, tup):
        self.state.add(tup["line"], 1)
        self.collector.ack(tup)
"""
_PUTS = """
    def execute(self, tup):
        self.state.put(tup["line"], self.state.get(tup["line"], 0) + 1)
        self.collector.ack(tup)
"""
_LISTS = """
    state_version = 2

    def migrate_value(self, key, value, version):
        return [value, "migrated"]

    def execute(self, tup):
        count, remark = self.state.get(tup["line"], [0, "new"])
        self.state.put(tup["line"], [count + 1, remark])
        self.collector.ack(tup)
"""
_CANNOT_START = (
    _PUTS
    + """
    def prepare(self, conf, context, collector):
        raise LookupError("no such table")
"""
)


_AS_IT_IS = "pass"
_CANNOT_OPEN = """def open(self, conf, context, collector):
        raise LookupError("no such folder")
"""


def first(files: str) -> str:
    """Counts with two tasks, and in "total" with one."""
    return _SOURCE.format(spout=_AS_IT_IS, methods=_ADDS, files=files, tasks=2, other="total")


def second(files: str) -> str:
    """Counts in another way, with four tasks, and in "again" instead of "total"."""
    return _SOURCE.format(spout=_AS_IT_IS, methods=_PUTS, files=files, tasks=4, other="again")


def third(files: str) -> str:
    """The first, but each count is a list now."""
    return _SOURCE.format(spout=_AS_IT_IS, methods=_LISTS, files=files, tasks=2, other="total")


def broken(files: str) -> str:
    """The second, but it cannot start."""
    return _SOURCE.format(spout=_AS_IT_IS, methods=_CANNOT_START, files=files, tasks=4, other="again")


def unopened(files: str) -> str:
    """The second, but its spout cannot open."""
    return _SOURCE.format(spout=_CANNOT_OPEN, methods=_PUTS, files=files, tasks=4, other="again")
