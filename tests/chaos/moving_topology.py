"""Events counted in each kind of keyed state, read from the partitions of a log by a spout whose tasks can change.

    events (positioned spout) --fields--> count    (stateful)        the events of each key
                              --fields--> windows  (KeyedProcess)    each key and window, by timers, and the clock's
                              --fields--> tumbling (KeyedWindow)
                              --fields--> sessions (KeyedWindow)
    windows, tumbling, sessions --fields--> totals (stateful)        the rows of each key and window

Event ``n`` is in partition ``n mod PARTITIONS``. Behind the last one each partition has ``ENDS``: once there is a file
``ends``, what is left of the events comes as fast as it can, and then they bring every task to the end of time, so that
all timers fire and all windows are over.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import keyed_topology
from keyed_topology import CLOCK, WINDOW_MS

from tupletree import KeyedWindow, Session, Spout, StatefulBolt, TopologyBuilder, Tumbling
from tupletree.connectors.log_spout import LogSpout

PARTITIONS = 4
KEYS = 7
ENDS = ["end2", "end6", "end0", "end5", "end12", "end4"]
"""Keys of which each of 2, 3 or 6 tasks has one."""
TUMBLING_MS, GAP_MS, PAUSE_EVERY, PAUSE_MS = 700, 500, 60, 3_000


def event(number):
    """The key and the time of an event. After some events there is a pause, in which sessions end."""
    return f"key-{number % KEYS}", number * 10 + number // PAUSE_EVERY * PAUSE_MS


def truths(events):
    """The number of events of each key and window, by bolt."""
    windows, tumbling, sessions, last = Counter(), Counter(), Counter(), {}
    for key, at in map(event, range(events)):
        windows[key, at // WINDOW_MS * WINDOW_MS] += 1
        tumbling[key, at // TUMBLING_MS * TUMBLING_MS] += 1
        start, newest = last.get(key, (at, at))
        last[key] = (start if at < newest + GAP_MS else at), at
        sessions[key, last[key][0]] += 1
    return {"windows": windows, "tumbling": tumbling, "sessions": sessions}


class Events(Spout):
    """Positions are those of a LogSpout: ``-1 - p`` is a position that another task has reached."""

    outputs = ("key", "at")

    def __init__(self, directory, rate, end):
        self.directory = directory
        self.rate = rate  # of all tasks, until there is a file ``ends``
        self.end = end

    def open(self, conf, context, collector):
        tasks = len(context.component_tasks(context.component_id))
        self.own = [one for one in range(PARTITIONS) if one % tasks == context.task_index]
        self.positions = dict.fromkeys(map(str, self.own), 0)
        self.sent = 0
        self.began_s = time.monotonic()
        self.is_to_end = False

    def next_tuple(self):
        number, partition = min(((self.positions[str(one)] * PARTITIONS + one), one) for one in self.own)
        is_ahead = self.sent >= (time.monotonic() - self.began_s) * self.rate * len(self.own) / PARTITIONS
        if is_ahead or number >= self.end:
            self.is_to_end = self.is_to_end or Path(self.directory, "ends").exists()
            if not self.is_to_end:
                return
        if number < self.end:
            self.emit(partition, *event(number))
            return
        at = self.positions[str(partition)] - self.count(partition)
        if at < len(ENDS):
            self.emit(partition, ENDS[at], event(self.end)[1] + 1_000_000)

    def count(self, partition):
        """How many events a partition has before the ends."""
        return len(range(partition, self.end, PARTITIONS))

    def emit(self, partition, key, at):
        self.sent += 1
        self.positions[str(partition)] += 1
        self.collector.emit([key, at], f"{partition}:{self.positions[str(partition)]}")

    def checkpoint_state(self):
        return dict(self.positions)

    def restore_state(self, state):
        begun = dict.fromkeys(map(str, self.own), 0)
        self.positions = {**begun, **state}
        for one in begun:
            self.positions[one] = max(self.positions[one], -1 - self.positions[one])

    def merge_states(self, states):
        return LogSpout.merge_states(self, states)


class Count(StatefulBolt):
    is_divisible = True

    def execute(self, tup):
        self.state.put(tup["key"], self.state.get(tup["key"], 0) + 1)
        self.collector.ack(tup)


class CountByAdding(Count):
    """Counts the same in another way."""

    def execute(self, tup):
        self.state.add(tup["key"], 1)
        self.collector.ack(tup)


class CountInLists(Count):
    """Stores each count in a list. A count that is a list already would be in two."""

    state_version = 2

    def execute(self, tup):
        self.state.put(tup["key"], [self.state.get(tup["key"], [0])[0] + 1])
        self.collector.ack(tup)

    def migrate_value(self, key, value, version):
        return [value]


class Windows(keyed_topology.Windows):
    outputs = ("bolt", "key", "start", "count")

    def on_timer(self, key, time, state, timers):
        for row in super().on_timer(key, time, state, timers):
            yield ["windows", *row]


class Counted(KeyedWindow):
    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    outputs = ("bolt", "key", "start", "count")

    def __init__(self, name, window):
        self.name = name
        self.window = window

    def initial(self):
        return 0

    def add(self, value, tup):
        return value + 1

    def merge(self, first, second):
        return first + second

    def on_window(self, key, window, value):
        yield [self.name, key, window.start, value]


class Totals(StatefulBolt):
    """Has the counts of each window, one for each row that has come."""

    is_divisible = True

    def execute(self, tup):
        key = tup["bolt"], tup["key"], tup["start"]
        counts = self.state.get(key, [])
        self.state.put(key, [counts[0] + 1 if counts else 1] if tup["start"] == CLOCK else [*counts, tup["count"]])
        self.collector.ack(tup)


def moving_topology(directory, *, rate, events, count=Count):
    builder = TopologyBuilder()
    builder.set_spout("events", Events(str(directory), rate, events), 2)
    bolts = {
        "count": count(),
        "windows": Windows(),
        "tumbling": Counted("tumbling", Tumbling(timedelta(milliseconds=TUMBLING_MS))),
        "sessions": Counted("sessions", Session(timedelta(milliseconds=GAP_MS))),
    }
    for name, bolt in bolts.items():
        builder.set_bolt(name, bolt, 2).fields_grouping("events", ["key"])
    totals = builder.set_bolt("totals", Totals(), 2)
    late = builder.set_bolt("late", keyed_topology.Late())
    for name in ("windows", "tumbling", "sessions"):
        totals.fields_grouping(name, ["bolt", "key", "start"])
        late.global_grouping(name, "late")
    return builder.create_topology()
