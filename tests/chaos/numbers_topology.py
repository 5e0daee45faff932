"""A topology that writes down everything that happens to its tuples, and the checker that judges what it wrote.

    numbers (spout) --fields--> double --fields--> sink

The spout emits 0, 1, 2, … at a fixed rate, each tracked, and emits again what fails. It remembers on disk what was
acked, so that after a crash it goes on with what was not, as a reader of a durable queue would. The sink writes every
number down before it acks it. All files are lines appended with one write each: what a killed process wrote is there.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from tupletree import BasicBolt, Bolt, CombinerBolt, Spout, TopologyBuilder

STOP = "stop"


def append(path, line):
    """One line in one write, which a kill cannot cut."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


class Numbers(Spout):
    outputs = ("number",)

    def __init__(self, directory, rate):
        self.directory = directory
        self.rate = rate

    def open(self, conf, context, collector):
        self.log = f"{self.directory}/spout.log"
        history = History(self.directory)
        self.again = deque(sorted(history.emitted() - history.acked()))
        self.next = max(history.emitted(), default=-1) + 1
        self.began_s = time.monotonic()
        self.sent = 0
        self.stopped = Path(self.directory, STOP)

    def next_tuple(self):
        if self.again:
            self.emit(self.again.popleft())
        elif self.sent < (time.monotonic() - self.began_s) * self.rate and not self.stopped.exists():
            self.sent += 1
            self.emit(self.next)
            self.next += 1

    def emit(self, number):
        append(self.log, f"emit {number} {time.time()}")
        self.collector.emit([number], number)

    def ack(self, number):
        append(self.log, f"ack {number} {time.time()}")

    def fail(self, number):
        append(self.log, f"fail {number} {time.time()}")
        self.again.append(number)


class Double(BasicBolt):
    outputs = ("number", "doubled")

    def execute(self, tup, collector):
        collector.emit([tup["number"], 2 * tup["number"]])


class DoubleMany(CombinerBolt):
    """The same for many numbers at a time, in a tree of its own."""

    outputs = ("number", "doubled")
    held = 20
    interval_s = 0.2

    def key_values(self, tup):
        return [(tup["number"], 2 * tup["number"])]

    def combine(self, first, second):
        return first  # a number that was emitted again


class Sink(Bolt):
    def __init__(self, directory):
        self.directory = directory

    def prepare(self, conf, context, collector):
        self.log = f"{self.directory}/sink-{context.task_id}.log"

    def execute(self, tup):
        append(self.log, f"{tup['number']} {tup['doubled']}")
        self.collector.ack(tup)


def numbers_topology(directory, rate=500, double=None):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(str(directory), rate))
    builder.set_bolt("double", double or Double(), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("sink", Sink(str(directory)), 2).fields_grouping("double", ["number"])
    return builder.create_topology()


class History:
    """What the files of a run say."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def events(self, kind):
        """(number, unix time) of each emit, ack or fail, in order."""
        path = self.directory / "spout.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(number), float(at)) for what, number, at in map(str.split, lines) if what == kind]

    def emitted(self):
        return {number for number, _ in self.events("emit")}

    def acked(self):
        return {number for number, _ in self.events("ack")}

    def sunk(self):
        """How often each number reached the sink, by number."""
        counts = {}
        for path in self.directory.glob("sink-*.log"):
            for line in path.read_text().splitlines():
                number, doubled = map(int, line.split())
                assert doubled == 2 * number
                counts[number] = counts.get(number, 0) + 1
        return counts

    def stop(self):
        """Let the spout emit nothing new."""
        (self.directory / STOP).touch()

    def is_complete(self):
        """True if everything emitted has been acked."""
        return self.emitted() == self.acked()

    def check(self):
        """At least once: every number was emitted, acked, and reached the sink; no ack came before that."""
        emitted = self.emitted()
        assert emitted == set(range(len(emitted)))
        assert self.acked() == emitted
        assert set(self.sunk()) == emitted

    def lost_at(self, crash_s):
        """The numbers that were pending at a moment."""
        done = {number for number, at in self.events("ack") if at <= crash_s}
        return {number for number, at in self.events("emit") if at <= crash_s} - done

    def recovery_s(self, crash_s):
        """How long after a crash the last number that was pending then was acked or emitted again."""
        pending = self.lost_at(crash_s)
        settled = {}
        for kind in ("ack", "emit"):
            for number, at in self.events(kind):
                if number in pending and at > crash_s:
                    settled[number] = min(at, settled.get(number, at))
        assert set(settled) == pending
        return max(settled.values(), default=crash_s) - crash_s
