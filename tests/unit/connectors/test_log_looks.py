"""LogPump: the ends of partitions are told before what is read behind them, so that they say something about it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tupletree.backoff import Backoff
from tupletree.connectors import log_pump
from tupletree.connectors.log_pump import Ends, Event, LogPump, PartitionLane, Read
from tupletree.connectors.log_source import Bounds, LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException
from tupletree.testing import wait_until


class Memory(LogSource):
    """Partitions are lists of texts, which grow. ``refuses``: ends cannot be looked at. ``asked``: questions so far.

    ``slow_at``: the number of the question that takes long.
    """

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists
        self.refuses = False
        self.asked = self.slow_at = 0

    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return list(self.lists)

    def bounds(self, partition: str) -> Bounds:
        self.asked += 1
        if self.asked == self.slow_at:
            time.sleep(0.3)
        if self.refuses:
            raise FailedException("not now")
        return Bounds(0, len(self.lists[partition]))

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        yield [LogRecord(self.lists[partition][at], at, at + 1) for at in range(start, end)]

    def close(self) -> None:
        pass


@pytest.fixture
def source() -> Memory:
    return Memory({"a": ["a"] * 3, "b": ["b"] * 2})


@pytest.fixture
def pump(source: Memory, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogPump]:
    monkeypatch.setattr(log_pump, "LOOK_EVERY_S", 0.0)
    made = LogPump(source, 0, 1, None, 1_000, 1_000_000, Backoff(first_s=0.01))
    made.looks_at_ends = True
    yield made
    made.close()


def events_until(pump: LogPump, counts: dict[str, int]) -> list[Event]:
    """Return the events until so many messages of each partition came."""
    events: list[Event] = []

    def has_come() -> bool:
        while (event := pump.poll()) is not None:
            events.append(event)
            if isinstance(event, Read):
                counts[event.lane.partition] -= len(event.records)
        return not any(counts.values())

    wait_until(has_come, 10, what="all messages have come")
    return events


def test_ends_come_between_the_assignment_and_what_is_read(pump: LogPump) -> None:
    pump.follow({})
    events = events_until(pump, {"a": 3, "b": 2})
    assert events[0] == Ends(None)  # the share is not known
    assert [type(event) for event in events[1:3]] == [PartitionLane, PartitionLane]
    assert events[3] == Ends({"a": 3, "b": 2})
    assert isinstance(events[4], Read)


def test_ends_are_those_after_all_was_read_that_comes_before(pump: LogPump, source: Memory) -> None:
    """Both partitions grow at once, so that at no look the end of one is behind what was read of the other."""
    pump.follow({})
    events_until(pump, {"a": 3, "b": 2})
    source.lists["b"] += ["b"] * 100
    source.lists["a"] += ["a"] * 100
    read, ends = {"a": 3, "b": 2}, {"b": 2.0}
    for event in events_until(pump, {"a": 100, "b": 100}):
        if isinstance(event, Read):
            read[event.lane.partition] += len(event.records)
        elif isinstance(event, Ends) and event.ends is not None:
            ends = dict(event.ends)
            assert read["a"] == 3 or ends["b"] == 102
    assert ends["b"] >= 2


def test_where_no_end_can_be_told_all_partitions_count(pump: LogPump, source: Memory) -> None:
    pump.follow({})
    events_until(pump, {"a": 3, "b": 2})
    source.refuses = True

    def is_told() -> bool:
        event = pump.poll()
        return isinstance(event, Ends) and event.ends == {"a": float("inf"), "b": float("inf")}

    wait_until(is_told, 10, what="the ends are not known")


def test_after_one_slow_look_the_next_comes_soon(pump: LogPump, source: Memory) -> None:
    """The first one after a start has to connect to all brokers."""
    source.slow_at = 3  # the first question after those where the partitions begin
    pump.follow({})
    events: list[Event] = []

    def has_looked_again() -> bool:
        events.extend(iter(pump.poll, None))
        return sum(isinstance(event, Ends) and event.ends is not None for event in events) >= 2

    wait_until(has_looked_again, 10, what="a look after the slow one")


def test_looks_of_a_spout_that_stands_still_are_few(
    pump: LogPump, source: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would fill the memory, if nothing is read for long."""
    monkeypatch.setattr(log_pump, "MAX_LOOKS", 3)
    pump.follow({})
    wait_until(lambda: source.asked > 60, 10, what="the log is asked for more time and again")
    waiting = list(iter(pump.poll, None))
    assert [type(event) for event in waiting].count(Ends) in {3, 4}  # one can come once some are taken
    source.lists["a"] += ["a"]
    assert any(isinstance(event, Ends) for event in events_until(pump, {"a": 1, "b": 0}))


def test_a_spout_without_event_times_is_told_of_no_ends(pump: LogPump) -> None:
    pump.looks_at_ends = False
    pump.follow({})
    assert not any(isinstance(event, Ends) for event in events_until(pump, {"a": 3, "b": 2}))
