"""A KeyedProcess amid faults: with aligned checkpoints each timer and its row count once, whenever a worker dies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from simulated_words import DURABLE

from tupletree import BasicStatefulBolt, KeyedProcess, ReliableSpout, Topology, TopologyBuilder
from tupletree.keyed import KeyState, Timers
from tupletree.testing import CounterexampleError, Outcome, simulate
from tupletree.tuples import Tuple

ALIGNED = {**DURABLE, "topology.state.checkpoint.aligned": True}
FEW = range(int(os.environ.get("KEYED_SEEDS", "10")))
COUNT, WINDOW_MS = 60, 100
SPOUTS = 2


def events(index: int) -> Iterator[tuple[str, int]]:
    """Yield the events of one spout task: keys, and times that ascend."""
    return ((f"k{number % 3}", number * 17 + index) for number in range(COUNT))


END_MS = min(list(events(index))[-1][1] for index in range(SPOUTS))
"""The last watermark: windows that ended before are over."""
TRUTH = Counter((key, at // WINDOW_MS * WINDOW_MS) for index in range(SPOUTS) for key, at in events(index))


class Events(ReliableSpout):
    outputs = ["key", "at"]

    def read(self) -> Iterator[list[Any]]:
        yield from (list(one) for one in events(self.context.task_index))


class Windows(KeyedProcess):
    """Counts the events of each window, and emits the count when the window is over; and once per key after a while."""

    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    outputs = ["key", "start", "count"]
    default_factory = dict

    def on_tuple(self, tup: Tuple, state: KeyState[dict[str, int]], timers: Timers) -> None:
        start = tup["at"] // WINDOW_MS * WINDOW_MS
        counts = dict(state.value)
        if not counts:
            timers.set_processing(timers.now + 50)
        counts[str(start)] = counts.get(str(start), 0) + 1
        state.value = counts
        timers.set(start + WINDOW_MS)

    def on_timer(self, key: Any, time: int, state: KeyState[dict[str, int]], timers: Timers) -> Iterator[list[Any]]:
        if timers.is_processing:
            yield [key, -1, 1]
            return
        counts = dict(state.value)
        start = time - WINDOW_MS
        yield [key, start, counts.pop(str(start))]
        state.value = {**counts, "": counts.get("", 0) + 1}  # never empty again


class Totals(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Tuple) -> None:
        key = tup["key"], tup["start"]
        self.state[key] += tup["count"]
        self.state["rows", *key] += 1


class Late(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Tuple) -> None:
        self.state[tup["late_tuple"]["key"]] += 1


def windows(bolt: KeyedProcess) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("events", Events(), SPOUTS)
    builder.set_bolt("windows", bolt, 2).fields_grouping("events", ["key"])
    builder.set_bolt("totals", Totals(), 2).fields_grouping("windows", ["key", "start"])
    builder.set_bolt("late", Late()).global_grouping("windows", "late")
    return builder.create_topology()


def exactly(outcome: Outcome) -> None:
    totals = outcome.states["totals"]
    assert all(times == 1 for entry, times in totals.items() if entry[0] == "rows"), "a timer's row came twice"
    counted = Counter({key: count for key, count in totals.items() if key[0] != "rows" and key[1] >= 0})
    assert counted.keys() == {key for key in TRUTH if key[1] + WINDOW_MS <= END_MS}
    for key, counts in outcome.states["windows"].items():
        if type(key) is str:  # not an entry of timers
            counted.update({(key, int(start)): count for start, count in counts.items() if start})
    assert counted == TRUTH
    assert outcome.states["late"] == {}


@pytest.mark.sized
def test_timers_and_their_rows_take_effect_once_amid_faults() -> None:
    report = simulate(windows(Windows()), FEW, check=exactly, conf=ALIGNED)
    assert report.messages == len(FEW) * SPOUTS * COUNT
    assert report.kills > 5


class ForgetsTimers(Windows):
    """Its timers and its watermark are in no checkpoint."""

    def pre_prepare(self, txid: int) -> None:
        pass


class LosesChanges(Windows):
    """Its checkpoints have the values, and not which timers were set and have fired since the last one."""

    def pre_prepare(self, txid: int) -> None:
        assert self._progress is not None
        self._progress.events.dirty.clear()
        super().pre_prepare(txid)


@pytest.mark.parametrize("broken", [ForgetsTimers, LosesChanges])
def test_a_broken_rule_is_found(broken: type[KeyedProcess]) -> None:
    with pytest.raises(CounterexampleError):
        simulate(windows(broken()), range(100), check=exactly, conf=ALIGNED)
