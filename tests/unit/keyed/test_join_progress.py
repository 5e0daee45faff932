"""The progress in event time that a join of a program sends: no result that follows it has an earlier time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed_driver import Driver

from tupletree.streams.edges import Edge
from tupletree.streams.layout import Layout
from tupletree.streams.steps import Chain, Emit
from tupletree.streams.timed_heads import IntervalHead
from tupletree.streams.watermarks import WATERMARKS
from tupletree.testing import make_tuple

LAYOUT = Layout(has_key=True, has_time=True)
MS = timedelta(milliseconds=1)
TASKS = {"lefts": 1, "rights": 2}


def joining(kind: str, before: int, after: int) -> Driver:
    settings = {"kind": kind, "before": before * MS, "after": after * MS, "max_lag": 0 * MS, "late_stream": "late"}
    edges = [Edge(source, "default", LAYOUT, side=side) for side, source in enumerate(TASKS)]
    chain = Chain(LAYOUT, (Emit("default", LAYOUT),), sends_watermarks=True)
    head = IntervalHead(lambda left, right: [left, right], settings, edges, chain)
    return Driver(head, {source: [task] for source, task in TASKS.items()})


def put(driver: Driver, source: str, at: int) -> list[int]:
    """Bring an element; return the times of the results."""
    driver.execute(make_tuple({"key": "a", "time": at, "value": at}, component=source, task=TASKS[source]))
    return [time for _, time, _ in driver.take()]


def progress(driver: Driver) -> list[int]:
    """Return the progress that is sent at a tick."""
    driver.recorder.anchors = ()
    driver.bolt.tick()
    return [time for [time] in driver.take(WATERMARKS)]


@pytest.mark.parametrize(("kind", "behind"), [("inner", 0), ("left", 10), ("outer", 20)])
def test_progress_waits_for_the_elements_that_may_have_no_partner(kind: str, behind: int) -> None:
    driver = joining(kind, before=20, after=10)
    put(driver, "lefts", 100)
    put(driver, "rights", 100)
    assert progress(driver) == [100 - behind]


@given(
    st.sampled_from(["inner", "left", "outer"]),
    st.integers(-3, 10),
    st.integers(3, 10),
    st.lists(st.tuples(st.sampled_from([*TASKS]), st.integers(0, 12)), max_size=40),
)
def test_no_result_is_earlier_than_the_progress_before_it(
    kind: str, before: int, after: int, steps: list[tuple[str, int]]
) -> None:
    driver, now, sent = joining(kind, before, after), dict.fromkeys(TASKS, 0), [-1000]
    for source, more in steps:
        now[source] += more
        results: Any = put(driver, source, now[source])
        assert min(results, default=sent[-1]) >= sent[-1]
        sent += progress(driver)
