"""A KeyedWindow amid faults: with aligned checkpoints each tuple is in its windows once, and each window comes once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from test_keyed_simulation import ALIGNED, COUNT, END_MS, FEW, SPOUTS, Events, Late, events

from tupletree import BasicStatefulBolt, KeyedWindow, Session, Sliding, Topology, TopologyBuilder
from tupletree.keyed import KeyState, WindowBounds
from tupletree.state.contract import KeyValueState
from tupletree.testing import CounterexampleError, Outcome, simulate
from tupletree.tuples import Tuple

SIZE_MS, EVERY_MS, GAP_MS = 100, 40, 30
SILENCE_MS = 60
"""No key is without events for so long: a watermark is at most this far behind the end."""

TIMES = {
    key: sorted(at for index in range(SPOUTS) for k, at in events(index) if k == key) for key in ("k0", "k1", "k2")
}


class Windows(KeyedWindow):
    """Has the times of the events of each window."""

    key, event_time, late_stream = "key", "at", "late"
    max_lag = timedelta(0)
    early_every = timedelta(milliseconds=50)
    outputs = ["key", "start", "end", "timing", "times"]

    def __init__(self, window: Any) -> None:
        self.window = window

    def initial(self) -> list[int]:
        return []

    def add(self, value: list[int], tup: Tuple) -> list[int]:
        value.append(tup["at"])
        return value

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        first += second
        return first

    def on_window(self, key: Any, window: WindowBounds, value: list[int]) -> Iterator[list[Any]]:
        yield [key, *window, sorted(value)]


class Shown(BasicStatefulBolt):
    """Has all rows of each window."""

    default_factory = list

    def execute(self, tup: Tuple) -> None:
        window = tup["key"], tup["start"], tup["end"], tup["timing"]
        self.state[window] = [*self.state[window], tup["times"]]


def topology_of(bolts: dict[str, Windows]) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("events", Events(), SPOUTS)
    late = builder.set_bolt("late", Late())
    for name, bolt in bolts.items():
        builder.set_bolt(name, bolt, 2).fields_grouping("events", ["key"])
        builder.set_bolt(f"{name} shown", Shown()).global_grouping(name)
        late.global_grouping(name, "late")
    return builder.create_topology()


def in_slices() -> dict[tuple[str, int, int], list[int]]:
    starts = range(-SIZE_MS // EVERY_MS * EVERY_MS, END_MS, EVERY_MS)
    found = {
        (key, start, start + SIZE_MS): [at for at in times if start <= at < start + SIZE_MS]
        for start in starts
        for key, times in TIMES.items()
    }
    return {window: times for window, times in found.items() if times}


def in_sessions() -> dict[tuple[str, int, int], list[int]]:
    found: dict[tuple[str, int, int], list[int]] = {}
    for key, times in TIMES.items():
        sessions: list[list[int]] = []
        for at in times:
            if sessions and at < sessions[-1][-1] + GAP_MS:
                sessions[-1].append(at)
            else:
                sessions.append([at])
        found |= {(key, one[0], one[-1] + GAP_MS): one for one in sessions}
    return found


SLIDING = Sliding(timedelta(milliseconds=SIZE_MS), timedelta(milliseconds=EVERY_MS))
BOLTS = {
    "sliding": Windows(SLIDING),
    "session": Windows(Session(timedelta(milliseconds=GAP_MS))),
}
TRUTHS = {
    "sliding": in_slices(),
    "session": in_sessions(),
}


def exactly(outcome: Outcome) -> None:
    for name, truth in TRUTHS.items():
        if name in outcome.states:
            check(outcome.states[f"{name} shown"], truth)
    assert outcome.states["late"] == {}


def check(shown: Mapping[Any, Any], truth: dict[tuple[str, int, int], list[int]]) -> None:
    over = {tuple(window[:3]): rows for window, rows in shown.items() if window[3] == "on_time"}
    assert all(len(rows) == 1 for rows in over.values()), "a window came twice"
    assert {window: rows[0] for window, rows in over.items()}.items() <= truth.items()
    assert over.keys() >= {window for window in truth if window[2] <= END_MS - SILENCE_MS}, "a window is missing"
    for window, rows in shown.items():
        if window[3] == "early":
            assert all(set(row) <= set(TIMES[window[0]]) and len(set(row)) == len(row) for row in rows)
            assert all(set(before) < set(after) for before, after in pairwise(rows)), "an early row came twice"


@pytest.mark.sized
def test_windows_come_once_with_each_tuple_once_amid_faults() -> None:
    report = simulate(topology_of(BOLTS), FEW, check=exactly, conf=ALIGNED)
    assert report.messages == len(FEW) * SPOUTS * COUNT
    assert report.kills > 5


class Careless(KeyState[Any]):
    """A value that is changed in place and not assigned."""

    @property
    def value(self) -> Any:
        return KeyState.value.fget(self)  # type: ignore[attr-defined]

    @value.setter
    def value(self, value: Any) -> None:
        if not self.exists:
            KeyState.value.fset(self, value)  # type: ignore[attr-defined]


class Unassigned(Windows):
    """Its checkpoints have keys as they were when they were new."""

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        self._access = Careless(state, None, None, self._now_ms)


class ForgetsTimers(Windows):
    """Its timers and its watermark are in no checkpoint."""

    def pre_prepare(self, txid: int) -> None:
        pass


class MissesMoves(Windows):
    """It does not set the timer of the next window when one is over."""

    def _set_timer(self, timers: Any, time_ms: int | None) -> None:
        if timers.event_time is not None:
            super()._set_timer(timers, time_ms)


@pytest.mark.parametrize("broken", [Unassigned, ForgetsTimers, MissesMoves])
def test_a_broken_rule_of_windows_is_found(broken: type[Windows]) -> None:
    with pytest.raises(CounterexampleError):
        simulate(topology_of({"sliding": broken(SLIDING)}), range(100), check=exactly, conf=ALIGNED)
