"""Word count over real text with its counts in a state, and a spout that can go back to any line.

    text (spout) --shuffle--> split --fields--> count (stateful)

The text is what Python's own documentation says of the language. Line ``n`` is read by task ``n mod tasks`` of the
spout, and the text begins anew when it has ended.

In default mode the spout is what a reader of a durable queue is: it keeps on disk up to where everything is acked, goes
on from there after a crash, and emits again what fails. In aligned mode it has no memory of its own but the checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import pydoc_data.topics
import re
import time
from collections import Counter, deque
from pathlib import Path

from tupletree import BasicBolt, Spout, StatefulBolt, TopologyBuilder

TEXT = [line for _, page in sorted(pydoc_data.topics.topics.items()) for line in page.splitlines() if line.strip()]
WORD = re.compile("[a-z]+")
COUNT_TASKS = 3
SPOUT_TASKS = 2


def line(number):
    return TEXT[number % len(TEXT)].lower()


def truth(lines):
    """How often each word occurs in so many lines."""
    counts = Counter()
    for number in range(lines):
        counts.update(WORD.findall(line(number)))
    return counts


class Lines(Spout):
    """Emits its lines at a steady rate."""

    outputs = ("number", "line")

    def __init__(self, directory, rate, end):
        self.directory = directory
        self.rate = rate
        self.end = end

    def open(self, conf, context, collector):
        self.step = len(context.component_tasks(context.component_id))
        self.index = context.task_index
        self.next = self.index
        self.again = deque()
        self.sent = 0
        self.began_s = time.monotonic()
        self.acked = Acked(Path(self.directory, f"acked-{self.index}"), self.index, self.step)

    def next_tuple(self):
        if self.again:
            return self.emit(self.again.popleft())
        if self.sent < (time.monotonic() - self.began_s) * self.rate and self.next < self.end:
            self.sent += 1
            self.emit(self.next)
            self.next += self.step

    def emit(self, number):
        self.collector.emit([number, line(number)], number)

    def ack(self, number):
        self.acked.add(number)

    def fail(self, number):
        self.again.append(number)


class DurableLines(Lines):
    """For the default mode: goes on from what was acked."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.next = self.acked.load()


class PositionedLines(Lines):
    """For the aligned mode."""

    def checkpoint_state(self):
        return self.next

    def restore_state(self, state):
        self.next = state
        self.acked.go_back(state)

    def fail(self, number):
        raise AssertionError("a positioned spout is not told of failures")


class Acked:
    """Up to which line everything is acked, on disk."""

    def __init__(self, path, first, step):
        self.path = path
        self.step = step
        self.next = first
        self.ahead = set()

    def load(self):
        with contextlib.suppress(FileNotFoundError):
            self.next = int(self.path.read_text())
        return self.next

    def go_back(self, number):
        """All before ``number`` is committed, told or not."""
        self.next, self.ahead = number, set()
        self.save()

    def add(self, number):
        self.ahead.add(number)
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += self.step
        if not self.ahead:
            self.save()

    def save(self):
        part = self.path.with_suffix(".part")
        part.write_text(str(self.next))
        os.replace(part, self.path)


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in WORD.findall(tup["line"]):
            collector.emit([word])


class Count(StatefulBolt):
    def init_state(self, state):
        self.counts = state

    def execute(self, tup):
        word = tup["word"]
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.collector.ack(tup)


class CountByAdding(Count):
    """Counts the same in another way."""

    def execute(self, tup):
        self.counts.add(tup["word"], 1)
        self.collector.ack(tup)


class CannotStart(Count):
    def prepare(self, conf, context, collector):
        raise LookupError("no such table")


def stateful_topology(directory, *, aligned, rate, lines, count=Count, tasks=COUNT_TASKS):
    builder = TopologyBuilder()
    spout = PositionedLines if aligned else DurableLines
    builder.set_spout("text", spout(str(directory), rate / SPOUT_TASKS, lines), SPOUT_TASKS)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("text")
    builder.set_bolt("count", count(), tasks).fields_grouping("split", ["word"])
    return builder.create_topology()
