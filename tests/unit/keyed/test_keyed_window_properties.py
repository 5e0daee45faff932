"""Any tuples, ticks, checkpoints and crashes, in any order: KeyedWindow does what a straightforward model does."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from keyed_driver import Driver
from keyed_pair import Pair
from keyed_window_model import Spec, WindowModel, bolt_of

from tupletree.testing import make_tuple

SENDERS = 2
TUPLES = st.tuples(st.just("tuple"), st.integers(1, SENDERS), st.sampled_from(["a", "b"]), st.integers(-12, 9))
"""A tuple's time is given by its distance from the newest time so far."""
TICKS = st.tuples(st.just("tick"), st.integers(0, 9))
WAITS = st.tuples(st.just("wait"), st.integers(0, 9))
STEPS = st.sampled_from(["prepare", "commit", "crash", "crash", "commit after crash", "rollback"])
RUNS = st.lists(st.one_of(TUPLES, TUPLES, TUPLES, TUPLES, TICKS, WAITS, st.tuples(STEPS)), min_size=20, max_size=60)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    kind = draw(st.sampled_from(["tumbling", "sliding", "sliding", "session", "session", "count"]))
    is_event_time = kind != "count" and draw(st.sampled_from([True, True, False]))
    size = draw(st.integers(1, 20))
    return Spec(
        kind=kind,
        size=size,
        every=draw(st.integers(1, size)),
        offset=draw(st.integers(-30, 30)),
        is_event_time=is_event_time,
        has_merge=kind == "session" or draw(st.booleans()),
        lateness=draw(st.integers(0, 15)) * draw(st.integers(0, 1)) if is_event_time else 0,
        early_every=draw(st.one_of(st.none(), st.integers(1, 12))),
        early_count=None if kind == "count" else draw(st.one_of(st.none(), st.integers(1, 4))),
        max_lag=draw(st.integers(0, 5)),
        idle_timeout=draw(st.one_of(st.none(), st.integers(1, 20))),
        in_place=draw(st.booleans()),
    )


class WindowPair(Pair[WindowModel]):
    def __init__(self, spec: Spec, senders: int) -> None:
        super().__init__(Driver(bolt_of(spec), senders), WindowModel(senders, spec))
        self.senders = senders
        self.newest_ms = 20
        self.number = 0
        self.emitted: list[list[Any]] = []  # as the bolt emitted it, and as it was then
        self.copies: list[list[Any]] = []

    def tuple(self, sender: int, key: str, distance: int) -> None:
        sender = min(sender, self.senders)
        at_ms = self.newest_ms + distance
        self.newest_ms = max(self.newest_ms, at_ms)
        self.number += 1
        values = {"key": key, "at": at_ms, "number": self.number}
        self.driver.execute(make_tuple(values, component="source", task=sender))
        self.model.execute(sender, key, at_ms, self.number)

    def tick(self, elapsed_ms: int) -> None:
        now_ms = self.model.clock_ms + elapsed_ms
        self.driver.now_ms = now_ms
        self.driver.bolt.tick()
        self.model.tick(now_ms)

    def wait(self, elapsed_ms: int) -> None:
        """Let time pass unnoticed."""
        self.model.clock_ms += elapsed_ms
        self.driver.now_ms = self.model.clock_ms

    def check(self) -> None:
        emitted, self.driver.recorder.emitted = self.driver.recorder.emitted, []
        self.rows = [one.row for one in emitted if one.stream == "default"]
        self.emitted += self.rows
        self.copies += copy.deepcopy(self.rows)
        expected, self.model.rows = self.model.rows, []
        late, self.model.late = self.model.late, []
        found = [[*bounds, sorted(numbers)] for *bounds, numbers in self.rows]
        assert sorted(found) == sorted(expected)
        assert [one.row[0]["number"] for one in emitted if one.stream == "late"] == late
        for timing in ("late", "on_time"):
            ends = [end for key, _, end, when, _ in found if when == timing]
            assert ends == sorted(ends)
        held = {key for key in self.driver.state if type(key) is str}
        assert held == (set(self.model.now.count) or set(self.model._keys()))


@given(specs(), st.integers(1, SENDERS), RUNS)
def test_it_does_what_the_model_does(spec: Spec, senders: int, steps: list[tuple[Any, ...]]) -> None:
    pair = WindowPair(spec, senders)
    for step in steps:
        pair.step(*step)
    assert pair.emitted == pair.copies, "an emitted value was changed"
