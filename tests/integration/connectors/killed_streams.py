"""Programs of streams from topics to tables.

counting     words are counted, and their lengths added up

lines -- flat_map --+-- key_by -- count --> words
                    +-- key_by -- map -- sum --> letters

visiting     clicks are joined with users, sessionized and aggregated, in event time

rows --+-- users --+
       +-- clicks -+-- join_table -- window(Session) --+--> sessions
                                                       +-- sum --> totals
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from tupletree import Session, Topology
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.streams import StreamBuilder
from tupletree.streams.builder import Guarantee


def counting(spout: KafkaSpout, words: TransactionalSink, letters: TransactionalSink, guarantee: Guarantee) -> Topology:
    """Return the program, with the sinks of its two tables."""
    builder = StreamBuilder(parallelism=2)
    split = builder.source(spout, name="lines", parallelism=2).flat_map(str.split)
    split.key_by(lambda word: word).count().sink(words, fields=["word", "times"])
    split.key_by(lambda word: word[0]).map(len).sum(name="lengths").sink(letters, fields=["letter", "length"])
    return builder.topology(guarantee)


class Row(NamedTuple):
    """A line of the topic. ``kind``: "user", with the user's name, or "click"."""

    kind: str
    at: int
    user: str
    name: str


class Visit(NamedTuple):
    """A session."""

    name: str
    start: int
    stop: int
    clicks: int


GAP = dt.timedelta(seconds=2)
"""Clicks further from each other are of two sessions."""


def row(line: str) -> Row:
    kind, at, user, name = line.split()
    return Row(kind, int(at), user, name)


def visit(pair: Any) -> Visit:
    name, window = pair
    return Visit(name, window.start, window.end, window.value)


def visiting(spout: KafkaSpout, sessions: TransactionalSink, totals: TransactionalSink) -> Topology:
    """Return the program, for a topic whose times ascend: one task gives the elements their event times."""
    builder = StreamBuilder(parallelism=2)
    rows = builder.source(spout, name="rows").map(row, parallelism=1)
    users, clicks = rows.event_time(lambda r: r.at, max_lag=dt.timedelta(0)).branch(
        lambda r: r.kind == "user", lambda r: True
    )
    named = clicks.key_by(lambda r: r.user).join_table(
        users.key_by(lambda r: r.user).map(lambda r: r.name), lambda click, name: name, versioned=True
    )
    visits = named.key_by(lambda name: name).window(Session(GAP)).count(name="sessions")
    visits.items().map(visit).sink(sessions)
    visits.map(lambda window: window.value).sum(name="clicks").sink(totals, fields=["name", "clicks"])
    return builder.topology("exactly_once")
