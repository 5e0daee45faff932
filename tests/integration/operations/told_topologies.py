"""Topologies of which an operator is told something: each has one mistake, or one thing to wait for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tupletree import BasicBolt, Bolt, FailedException, KeyedProcess, Spout, StatefulBolt, Topology, TopologyBuilder

SLEEP_S = 0.02
MEASURED = 200
PENDING = 7
LATE = 1024


class Numbers(Spout):
    """Emits numbers, a hundred a second, up to a limit. What fails is not emitted again."""

    outputs = ("number",)
    paces_itself = True

    def __init__(self, limit: int = 1_000_000) -> None:
        self.limit = limit

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector
        self.number = 0
        self.due_s = time.monotonic()

    def next_tuple(self) -> None:
        if self.number < self.limit and time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.01
            self.number += 1
            self.collector.emit([self.number], self.number)

    def fail(self, msg_id: Any) -> None:
        pass


class Deaf(Spout):
    """Emits numbers with message ids, and does not define fail."""

    outputs = ("number",)

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector
        self.number = 0

    def next_tuple(self) -> None:
        if self.number < 30:
            self.number += 1
            self.collector.emit([self.number], msg_id=self.number)


class Sink(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


class Refuses(BasicBolt):
    """Fails each third tuple."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] % 3 == 0:
            raise FailedException("a third")


class Sleeps(BasicBolt):
    """Takes about SLEEP_S for each tuple, and says how long each took."""

    blocking = True

    def prepare(self, conf: Mapping[str, Any], context: Any) -> None:
        self.took_ms: list[float] = []
        context.register_status(lambda: {"took_ms": [round(one, 3) for one in sorted(self.took_ms)]})

    def execute(self, tup: Any, collector: Any) -> None:
        began_s = time.monotonic()
        time.sleep(SLEEP_S)
        self.took_ms.append(1000 * (time.monotonic() - began_s))


class Forgets(Bolt):
    """Acks nothing."""

    def execute(self, tup: Any) -> None:
        pass


class Loops(BasicBolt):
    """Never returns."""

    def execute(self, tup: Any, collector: Any) -> None:
        self.round_and_round()

    def round_and_round(self) -> None:
        while True:
            time.sleep(0.05)


class Total(StatefulBolt):
    """Counts in its state."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        self.state.put("count", self.state.get("count", 0) + 1)
        self.collector.ack(tup)


def chain(spout: Spout, bolt: Any, parallelism: int = 1) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout)
    builder.set_bolt("works", bolt, parallelism).shuffle_grouping("numbers")
    return builder.create_topology()


class Burst(Spout):
    """Emits one tuple of today, and LATE tuples that are decades behind it."""

    outputs = ("number", "at")

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.collector = collector
        self.emitted = 0

    def next_tuple(self) -> None:
        if self.emitted <= LATE:
            self.collector.emit([1, 10**12 if not self.emitted else self.emitted])
            self.emitted += 1


class Keyed(KeyedProcess):
    key, event_time, max_lag = "number", "at", timedelta(seconds=1)

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None:
        pass


def late() -> tuple[Topology, dict[str, Any]]:
    """LATE tuples that are late, in a moment."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Burst())
    builder.set_bolt("works", Keyed()).fields_grouping("numbers", "number")
    return builder.create_topology(), {"topology.error.throttle.interval.secs": 1}


def keeps(tasks: int, directory: str) -> tuple[Topology, dict[str, Any]]:
    return chain(Numbers(), Total(), tasks), {
        "topology.state.checkpoint.interval.ms": 200,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": directory},
    }


def sleeps() -> tuple[Topology, dict[str, Any]]:
    return chain(Numbers(MEASURED), Sleeps()), {"topology.stats.sample.rate": 1.0}


def forgets() -> Topology:
    return chain(Numbers(), Forgets())


def loops() -> Topology:
    return chain(Numbers(), Loops())


def drops() -> Topology:
    return chain(Deaf(), Refuses())


def idle() -> Topology:
    """Emits three tuples, and then nothing."""
    return chain(Numbers(3), Sink(), 8)


def waits() -> tuple[Topology, dict[str, Any]]:
    """PENDING trees that nobody completes."""
    return chain(Numbers(PENDING), Forgets()), {"topology.message.timeout.secs": 900}


class Prepares(Sink):
    """Takes a while to be ready: a worker that is ready at once is not seen before it is."""

    def setup(self) -> None:
        time.sleep(3)


def dies() -> Topology:
    return chain(Numbers(), Sink())


def starts_slowly() -> Topology:
    return chain(Numbers(), Prepares())
