"""Nexmark's queries as programs of streams: their results equal those of plain Python over the same events."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bench.nexmark import queries
from bench.nexmark.events import Auction, Bid, Event, Person, closing, generate, last_ms
from bench.nexmark.queries import QUERIES
from bench.nexmark.reference import REFERENCES
from bench.nexmark.results import KEYED, comparable, expected
from tupletree import ReliableSpout
from tupletree.streams import StreamBuilder


def results(query: str, events: list[Event]) -> list[Any]:
    """Return all results of a query's program; their keys are left out unless they belong to the result."""
    stream = QUERIES[query](StreamBuilder(parallelism=2).source([*events, *closing(events)], name="events"))
    found = stream.collect(1_000_000, seconds=60)
    is_keyed = stream.operator.layout.has_key and query not in KEYED
    return [element for _, element in found] if is_keyed else found


def assert_equal(query: str, events: list[Event]) -> None:
    last = last_ms(events)
    wanted = expected(query, [*events, *closing(events)], last)
    assert comparable(query, results(query, events), last) == wanted
    assert len(wanted) > 1


IN_EVENT_TIME = [query for query in QUERIES if query != "q12"]


@pytest.mark.parametrize("query", IN_EVENT_TIME)
def test_a_query_gives_the_results_of_plain_python(query: str) -> None:
    assert_equal(query, generate(2_000, seed=4, rate=50, max_lag_ms=1_000))


@pytest.mark.nightly
@pytest.mark.parametrize("query", IN_EVENT_TIME)
def test_a_query_gives_the_results_of_plain_python_over_many_events(query: str) -> None:
    assert_equal(query, generate(50_000, seed=5, rate=1_000, max_lag_ms=1_000))


class Endless(ReliableSpout):
    """Emits events, and waits for more."""

    outputs = ["event"]

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def read(self) -> Iterator[list[Event] | None]:
        yield from ([event] for event in self.events)
        while True:
            yield None


def test_windows_in_processing_time_count_every_bid_once() -> None:
    events = generate(2_000, seed=6)
    stream = StreamBuilder(parallelism=2).source(Endless(events), name="events")
    counts = queries.q12(stream, dt.timedelta(milliseconds=50))
    bids = counts.flat_map(lambda count: [1] * count).collect(92 * 20, seconds=60)
    assert Counter(bidder for bidder, _ in bids) == Counter(dict(REFERENCES["q12"](events)))


def test_events_are_those_of_the_benchmark() -> None:
    events = generate(5_000, seed=1, max_lag_ms=500)
    assert Counter(map(type, events)) == {Person: 100, Auction: 300, Bid: 4_600}
    assert events == generate(5_000, seed=1, max_lag_ms=500) != generate(5_000, seed=2, max_lag_ms=500)
    newest, lags = 0, []
    for event in events:
        newest = max(newest, event.time)
        lags.append(newest - event.time)
    assert 0 < max(lags) <= 500
