"""Any tuples, ticks, checkpoints and crashes, in any order: KeyedProcess does what a straightforward model does."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from keyed_driver import Driver
from keyed_model import Model, Ops, Row, Scripted
from keyed_pair import Pair

from tupletree.testing import make_tuple

SENDERS = 3
KEYS = st.sampled_from(["a", "b", "c"])
OPS = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "delete", "set_processing", "delete_processing"]), st.integers(-3, 12)
    ),
    max_size=3,
)  # fmt: skip
TUPLES = st.tuples(
    st.just("tuple"), st.integers(1, SENDERS), KEYS, st.integers(-4, 6), OPS, st.sampled_from([False] * 4 + [True])
)
TICKS = st.tuples(st.just("tick"), st.integers(0, 9))
STEPS = st.sampled_from(["prepare", "commit", "crash", "crash", "commit after crash", "rollback"])
"""A tuple's time is given by its distance from the newest time so far."""

RUNS = st.lists(st.one_of(TUPLES, TUPLES, TUPLES, TICKS, st.tuples(STEPS)), min_size=30, max_size=60)


class ScriptedPair(Pair[Model]):
    def __init__(self, senders: int, *settings: Any) -> None:
        super().__init__(Driver(Scripted(*settings), senders), Model(senders, *settings))
        self.senders = senders
        self.newest_ms = 20

    def tuple(self, sender: int, key: str, distance: int, ops: Ops, clears: bool) -> None:
        sender = min(sender, self.senders)
        at_ms = self.newest_ms + distance
        self.newest_ms = max(self.newest_ms, at_ms)
        values = {"key": key, "at": at_ms, "ops": ops, "clears": clears}
        self.driver.execute(make_tuple(values, component="source", task=sender))
        self.model.execute(sender, key, at_ms, ops, clears)

    def tick(self, elapsed_ms: int) -> None:
        now_ms = self.model.clock_ms + elapsed_ms
        self.driver.now_ms = now_ms
        self.driver.bolt.tick()
        self.model.tick(now_ms)

    def check(self) -> None:
        emitted, self.driver.recorder.emitted = self.driver.recorder.emitted, []
        found = [tuple(one.row) for one in emitted if one.stream == "default"]
        late = [(one.row[0]["key"], one.row[0]["at"]) for one in emitted if one.stream == "late"]
        expected, self.model.rows = self.model.rows, []
        expected_late, self.model.late = self.model.late, []
        assert sorted(found) == sorted(expected)
        assert late == expected_late
        at = [what for what, *_ in found].index("tuple") if "tuple" in [what for what, *_ in found] else 0
        for part in (found[:at], found[at:]):  # a tuple can set timers whose times have passed
            for kind in ("event", "processing"):
                times = [time for what, _, time, _ in part if what == kind]
                assert times == sorted(times)
        self._check_held()

    def _check_held(self) -> None:
        now, bolt = self.model.now, self.driver.bolt
        assert bolt._timers.watermark == now.watermark
        values = {key: value for key, value in self.driver.state.items() if type(key) is str}
        assert values == {key: value for key, (value, _) in now.values.items()}


SETTINGS = st.tuples(
    st.integers(1, SENDERS),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 30)),
)


@given(SETTINGS, RUNS)
def test_it_does_what_the_model_does(settings: tuple[Any, ...], steps: list[tuple[Any, ...]]) -> None:
    pair = ScriptedPair(*settings)
    for step in steps:
        pair.step(*step)


@given(SETTINGS, st.lists(st.one_of(TUPLES, TUPLES, TICKS), min_size=10, max_size=30), st.data())
def test_a_crash_between_any_two_steps_changes_nothing_that_follows(
    settings: tuple[Any, ...], steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """A run with a checkpoint, some steps, a crash, and these steps again is the run without the crash.

    The silence of senders is counted anew in each life, so here senders are never idle.
    """
    senders, max_lag_ms, _, ttl_ms = settings
    cut = data.draw(st.integers(0, len(steps)))
    crash = data.draw(st.integers(cut, len(steps)))
    straight = run(steps, ScriptedPair(senders, max_lag_ms, None, ttl_ms))
    pair = ScriptedPair(senders, max_lag_ms, None, ttl_ms)
    before = run(steps[:cut], pair)
    pair.step("commit")
    newest_ms, clock_ms = pair.newest_ms, pair.model.clock_ms
    run(steps[cut:crash], pair)
    pair.step("crash")
    pair.newest_ms, pair.model.clock_ms, pair.driver.now_ms = newest_ms, clock_ms, clock_ms
    pair.driver.bolt._now = clock_ms
    after = run(steps[cut:], pair)
    assert before + after == straight


def run(steps: list[tuple[Any, ...]], pair: ScriptedPair) -> list[Row]:
    """Return the rows of some steps, those of one step in order."""
    rows: list[Row] = []
    for step in steps:
        getattr(pair, step[0])(*step[1:])
        rows += sorted(tuple(one.row) for one in pair.driver.recorder.emitted if one.stream == "default")  # type: ignore[misc]
        pair.check()
    return rows


@given(st.lists(st.tuples(KEYS, st.integers(0, 9), st.booleans()), max_size=400))
def test_moving_a_timer_keeps_no_trace_of_where_it_was(moves: list[tuple[str, int, bool]]) -> None:
    from tupletree.keyed.timer_queue import MIN_DEAD, TimerQueue

    queue = TimerQueue()
    held: set[tuple[int, str]] = set()
    for number, (key, distance, deletes) in enumerate(moves):
        time = number + distance
        queue.set(key, time)
        held.add((time, key))
        if deletes:
            for other, owner in sorted(held):
                if owner == key and other != time:
                    queue.delete(key, other)
                    held.discard((other, key))
        assert len(queue) == len(held)
        assert len(queue._heap) <= 2 * len(held) + MIN_DEAD + 1
        assert queue.due_at <= min(held)[0]
    taken = []
    while (due := queue.pop(10_000)) is not None:
        taken.append(due)
    assert sorted((time, str(key)) for key, time in taken) == sorted(held)
    assert all(first[1] <= second[1] for first, second in pairwise(taken))
