"""Events counted per key and window, by timers in event time, and by the clock meanwhile.

events (spout) --fields--> windows (KeyedProcess) --fields--> totals (stateful)
               --fields--> sliding (KeyedWindow)  --fields--> slid (stateful)

Event ``n`` is emitted by task ``n mod tasks`` of the spout, so the times of a task ascend, and no event is late.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from stateful_topology import SPOUT_TASKS, PositionedLines

import tupletree
from tupletree import BasicStatefulBolt, KeyedProcess, KeyedWindow, TopologyBuilder

TASKS = 2
WINDOW_MS = 1_000
SLIDING_MS, EVERY_MS = 25_000, 7_000
CLOCK = -1
"""The start of rows that timers in processing time emit."""


def event(number):
    """The key and the time of an event."""
    return f"key-{number % 7}", number * 10


def truth(events):
    """The number of events of each key and window."""
    return Counter((key, at // WINDOW_MS * WINDOW_MS) for key, at in map(event, range(events)))


def slid_truth(events):
    """The number of events of each key and sliding window."""
    counts = Counter()
    for key, at in map(event, range(events)):
        last = at // EVERY_MS * EVERY_MS
        counts.update((key, start) for start in range(last, at - SLIDING_MS, -EVERY_MS))
    return counts


class Events(PositionedLines):
    outputs = ("key", "at")

    def emit(self, number):
        self.collector.emit(event(number), number)


class Windows(KeyedProcess):
    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    outputs = ("key", "start", "count")

    def on_tuple(self, tup, state, timers):
        if state.value is None:
            timers.set_processing(timers.now + 200)
        counts, fired = state.value or ({}, 0)
        start = tup["at"] // WINDOW_MS * WINDOW_MS
        state.value = {**counts, start: counts.get(start, 0) + 1}, fired
        timers.set(start + WINDOW_MS)

    def on_timer(self, key, time, state, timers):
        counts, fired = state.value
        if timers.is_processing:
            timers.set_processing(timers.now + 200)
            state.value = counts, fired + 1
            yield [key, CLOCK, 1]
        else:
            start = time - WINDOW_MS
            state.value = {other: count for other, count in counts.items() if other != start}, fired
            yield [key, start, counts[start]]


class Sliding(KeyedWindow):
    """Counts the events of windows that overlap."""

    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    window = tupletree.Sliding(timedelta(milliseconds=SLIDING_MS), every=timedelta(milliseconds=EVERY_MS))
    outputs = ("key", "start", "count")

    def initial(self):
        return 0

    def add(self, value, tup):
        return value + 1

    def merge(self, first, second):
        return first + second

    def on_window(self, key, window, value):
        yield [key, window.start, value]


class Totals(BasicStatefulBolt):
    """Has the counts of each key and window, one for each row that has come."""

    default_factory = list

    def execute(self, tup):
        key = tup["key"], tup["start"]
        if tup["start"] == CLOCK:
            self.state[key] = [(self.state.get(key) or [0])[0] + 1]
        else:
            self.state[key] = [*self.state[key], tup["count"]]


class Late(BasicStatefulBolt):
    def execute(self, tup):
        self.state[tup["late_tuple"]["at"]] = True


def keyed_topology(directory, *, rate, events):
    builder = TopologyBuilder()
    builder.set_spout("events", Events(str(directory), rate / SPOUT_TASKS, events), SPOUT_TASKS)
    builder.set_bolt("windows", Windows(), TASKS).fields_grouping("events", ["key"])
    builder.set_bolt("totals", Totals(), TASKS).fields_grouping("windows", ["key", "start"])
    builder.set_bolt("sliding", Sliding(), TASKS).fields_grouping("events", ["key"])
    builder.set_bolt("slid", Totals(), TASKS).fields_grouping("sliding", ["key", "start"])
    late = builder.set_bolt("late", Late())
    late.global_grouping("windows", "late").global_grouping("sliding", "late")
    return builder.create_topology()
