"""Any tuples, ticks, checkpoints and crashes, in any order: joins do what nested loops over all tuples do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from join_model import SIDES, Came, IntervalModel, JoinModel, Numbers, VersionModel, Versions
from keyed_driver import Driver
from keyed_pair import Pair

from tupletree.testing import make_tuple

SENDERS = (1, 2)
"""Tasks of each side: 1 and 2 are of the left side, 3 and 4 of the right side."""
TUPLES = st.tuples(
    st.just("tuple"),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(["a", "a", "b"]),
    st.integers(-6, 4),
    st.sampled_from([False, False, True]),
)
"""Side, task, key, distance from the newest time so far, whether a row of a table is deleted."""
TICKS = st.tuples(st.just("tick"), st.integers(0, 9))
STEPS = st.sampled_from(["prepare", "commit", "crash", "commit after crash", "rollback"])
RUNS = st.lists(st.one_of(TUPLES, TUPLES, TUPLES, TUPLES, TUPLES, TICKS, st.tuples(STEPS)), min_size=40, max_size=90)
TIMES = st.tuples(st.integers(1, 2), st.integers(0, 5), st.one_of(st.none(), st.integers(1, 20)))
"""Tasks of each side, max_lag, idle_timeout."""
INTERVALS = st.tuples(st.integers(-4, 9), st.integers(-4, 9)).filter(lambda both: sum(both) >= 0)
INTERVAL_KINDS = st.sampled_from(["inner", "left", "outer"])
TABLE_KINDS = st.sampled_from(["inner", "left"])


class JoinPair(Pair[JoinModel]):
    """A join and its model, which take the same steps. ``tasks``: of each side."""

    def __init__(self, bolt: Any, model: JoinModel, tasks: int) -> None:
        self.tasks = tasks
        sides = {side: range(2 * at + 1, 2 * at + 1 + tasks) for at, side in enumerate(SIDES)}
        super().__init__(Driver(bolt, sides), model)
        model.time.senders = [task for side in (1, 3) for task in range(side, side + tasks)]  # type: ignore[assignment]
        model.time._began()
        self.newest_ms = 20
        self.number = 0

    def tuple(self, side: int, task: int, key: str, distance: int, deleted: bool) -> None:
        sender = 2 * side + 1 + min(task, self.tasks - 1)
        at_ms = self.newest_ms + distance
        self.newest_ms = max(self.newest_ms, at_ms)
        self.number += 1
        values = {"key": key, "at": at_ms, "number": self.number, "deleted": deleted}
        self.driver.execute(make_tuple(values, component=SIDES[side], task=sender))
        self.model.execute(sender, Came(side, key, at_ms, self.number, deleted and side == 1))

    def tick(self, elapsed_ms: int) -> None:
        now_ms = self.model.time.clock_ms + elapsed_ms
        self.driver.now_ms = now_ms
        self.driver.bolt.tick()
        self.model.tick(now_ms)

    def check(self) -> None:
        """Compare what was emitted in this step, and the timers held after it."""
        emitted, self.driver.recorder.emitted = self.driver.recorder.emitted, []
        found = [tuple(one.row) for one in emitted if one.stream == "default"]
        late = [one.row[0]["number"] for one in emitted if one.stream == "late"]
        expected, self.model.rows = self.model.rows, []
        expected_late, self.model.late = self.model.late, []
        assert sorted(found) == sorted(expected)
        assert late == expected_late
        progress = self.driver.bolt._progress
        assert progress is not None and len(progress.events) <= len({"a", "b", "end"}), "one timer per key"

    def end(self) -> None:
        """Let the watermark pass everything."""
        self.newest_ms += 1_000
        for side in (0, 1):
            for task in range(self.tasks):
                self.step("tuple", side, task, "end", 0, False)


def run(pair: JoinPair, steps: list[Any]) -> dict[Any, Any]:
    """Take all steps and then the end; return what the state has of the keys then."""
    for step in steps:
        pair.step(*step)
    pair.end()
    for _ in range(2):  # the first one may have been prepared before the end
        pair.step("commit")
    return {entry: value for entry, value in pair.driver.state.items() if _is_kept(entry)}


def _is_kept(entry: Any) -> bool:
    return entry not in ("end", ("$progress",), ("$timers", "end"))


@given(TIMES, INTERVALS, INTERVAL_KINDS, RUNS)
def test_an_interval_join_does_what_nested_loops_do(
    times: tuple[Any, ...], interval: tuple[int, int], kind: str, steps: list[Any]
) -> None:
    tasks, *settings = times
    pair = JoinPair(Numbers(*settings, *interval, kind), IntervalModel(tasks, *settings, *interval, kind), tasks)
    assert run(pair, steps) == {}, "nothing is left when the watermark has passed everything"


@given(TIMES, TABLE_KINDS, RUNS)
def test_a_versioned_table_join_does_what_nested_loops_do(times: tuple[Any, ...], kind: str, steps: list[Any]) -> None:
    tasks, *settings = times
    model = VersionModel(tasks, *settings, kind)
    pair = JoinPair(Versions(*settings, kind), model, tasks)
    kept = run(pair, steps)
    rows = {key: row for key in "ab" if (row := model._valid(key, pair.newest_ms)) is not None}
    assert {key: value[1][2][1] for key, value in kept.items()} == {key: [row.number] for key, row in rows.items()}


@given(TIMES, INTERVALS, INTERVAL_KINDS, RUNS, st.randoms(use_true_random=False))
def test_the_pairs_do_not_depend_on_the_order_of_arrival(
    times: tuple[Any, ...], interval: tuple[int, int], kind: str, steps: list[Any], random: Any
) -> None:
    def rows(order: Callable[[list[Any]], None]) -> list[Any]:
        tuples = [(n, step) for n, step in enumerate(steps) if step[0] == "tuple"]
        order(tuples)
        driver = Driver(Numbers(1_000, None, *interval, kind), {"left": [1], "right": [3]})
        for number, (_, side, _, key, distance, _) in tuples:
            values = {"key": key, "at": 10 * distance, "number": number}
            driver.execute(make_tuple(values, component=SIDES[side], task=2 * side + 1))
        for side in (0, 1):
            values = {"key": "end", "at": 9_000, "number": -2}
            driver.execute(make_tuple(values, component=SIDES[side], task=2 * side + 1))
        return sorted(row for row in driver.take() if -2 not in row)

    assert rows(lambda tuples: None) == rows(random.shuffle)
