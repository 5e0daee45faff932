"""Which bolts are said to forget their acks, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tupletree.nimbus.statistics.ack_detector import Trees, long_call, never_acks
from tupletree.nimbus.statistics.stall_detector import Answers, Movement, answers
from tupletree.v1.nimbus_pb2 import InputStats, TaskStats

FORGETS = Answers(executed=10_600, settled=0, since_s=12.0)
TREES = Trees(is_tracked=True, pending=900, timeouts=0)
CONF = {"topology.message.timeout.secs": 30}


def test_a_bolt_that_acks_nothing_is_named_long_before_its_trees_time_out() -> None:
    assert never_acks(FORGETS, TREES, CONF) == (
        "has executed 10,600 tuples and acked none: does execute call self.collector.ack?"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"executed": 99},
        {"since_s": 9.9},
        {"settled": 1},
        {"holds_tuples": True},
        {"holds_tuples": True, "since_s": 3600.0},
    ],
    ids=["few tuples", "a moment ago", "it acked one", "it says that it holds them", "and for long"],
)
def test_a_bolt_that_may_ack_later_is_not_named(changes: dict[str, Any]) -> None:
    assert never_acks(replace(FORGETS, **changes), TREES, CONF) == ""


@pytest.mark.parametrize(
    "trees",
    [Trees(is_tracked=False, pending=0, timeouts=0), Trees(is_tracked=True, pending=0, timeouts=0)],
    ids=["nothing is tracked", "its tuples are not tracked"],
)
def test_nobody_waits_for_the_ack_of_an_untracked_tuple(trees: Trees) -> None:
    assert never_acks(replace(FORGETS, since_s=3600.0), trees, CONF) == ""


def test_a_long_message_timeout_makes_a_long_patience() -> None:
    assert never_acks(replace(FORGETS, since_s=199.0), TREES, {"topology.message.timeout.secs": 600}) == ""
    assert never_acks(replace(FORGETS, since_s=200.0), TREES, {"topology.message.timeout.secs": 600})
    assert never_acks(replace(FORGETS, since_s=9.0), TREES, {"topology.message.timeout.secs": 5}) == ""


def test_one_that_holds_tuples_is_named_when_its_trees_time_out() -> None:
    holds = replace(FORGETS, holds_tuples=True, since_s=29.0)
    late = replace(TREES, timeouts=3)
    assert never_acks(holds, late, CONF) == ""
    assert never_acks(replace(holds, since_s=30.0), late, CONF)


def test_with_few_trees_at_a_time_few_tuples_are_enough() -> None:
    few = replace(FORGETS, executed=10)
    assert never_acks(few, TREES, {**CONF, "topology.max.spout.pending": 11}) == ""
    assert never_acks(few, TREES, {**CONF, "topology.max.spout.pending": 10})


def movement(*reports: tuple[float, TaskStats]) -> Movement:
    found = Movement(reports[0][1], reports[0][0])
    for at_s, stats in reports:
        found.on_report(stats, at_s)
    return found


def test_ticks_are_no_tuples_and_time_counts_from_the_first_one() -> None:
    ticks = InputStats(source_component="__system", stream="__tick", executed=50)
    idle = TaskStats(task_id=3, executed=50, inputs=[ticks])
    words = InputStats(source_component="words", stream="default", executed=200)
    works = TaskStats(task_id=3, executed=250, inputs=[ticks, words], holds_tuples=True)
    found = answers([movement((0, idle), (100, idle), (107, works)), movement((0, TaskStats(task_id=4)))])
    assert found == Answers(executed=200, settled=0, since_s=7.0, holds_tuples=True)


def test_one_task_that_acks_speaks_for_all() -> None:
    found = answers(
        [movement((0, TaskStats(executed=500)), (9, TaskStats(executed=500))), movement((0, TaskStats(acked=1)))]
    )
    assert found.settled == 1


def test_a_call_that_does_not_end_is_told_if_tuples_wait() -> None:
    busy = TaskStats(task_id=3, call_s=14.2, queued=5)
    idle = TaskStats(task_id=4, call_s=60.0)
    assert long_call(answers([movement((0, busy)), movement((0, idle))])) == (
        "task 3 has been in one call of its code for 14 s although tuples wait"
    )
    assert long_call(answers([movement((0, idle))])) == ""
    assert long_call(answers([])) == ""
