"""Since when tasks do not get on."""

from __future__ import annotations

from tupletree.nimbus.statistics.stall_detector import Movement, Stall, together
from tupletree.v1.nimbus_pb2 import TaskStats

AFTER_S = 60.0


def moved(*reports: tuple[float, dict[str, int]]) -> Movement:
    """The movement of a task that reported this, each at a moment."""
    movement = Movement(TaskStats(**reports[0][1]), reports[0][0])
    for at_s, counted in reports:
        movement.on_report(TaskStats(**counted), at_s)
    return movement


def still(*movements: Movement) -> Stall:
    return together(movements, AFTER_S)


def test_a_task_with_nothing_to_do_gets_on() -> None:
    assert still(moved((0, {}), (100, {"executed": 5}), (500, {"executed": 5}))) == Stall()


def test_a_task_that_executes_gets_on_however_much_waits() -> None:
    assert still(moved(*((at, {"executed": at, "queued": 1000}) for at in range(0, 500, 10)))) == Stall()


def test_tuples_that_wait_while_none_is_executed_are_a_standstill() -> None:
    hung = [(0, {"executed": 7, "queued": 3}), (10, {"executed": 8, "queued": 3}), (70, {"executed": 8, "queued": 9})]
    assert still(moved(*hung)) == Stall()
    hung.append((80, {"executed": 8, "queued": 9}))
    assert still(moved(*hung), moved((0, {"executed": 1}))) == Stall(stuck=1, stuck_s=70)


def test_it_begins_when_the_first_tuple_waits() -> None:
    hung = [(0, {"executed": 7}), (300, {"executed": 7}), (301, {"executed": 7, "queued": 1})]
    assert still(moved(*hung)) == Stall()
    assert still(moved(*hung, (361, {"executed": 7, "queued": 1}))) == Stall(stuck=1, stuck_s=61)


def test_trees_that_fail_while_none_is_acked_are_a_standstill() -> None:
    fails = [(0, {"acked": 5, "failed": 1}), (30, {"acked": 5, "failed": 4}), (60, {"acked": 5, "failed": 9})]
    assert still(moved(*fails)) == Stall()
    assert still(moved(*fails, (90, {"acked": 5, "failed": 9}))) == Stall(fails=8, fails_s=90)
    assert still(moved(*fails, (90, {"acked": 6, "failed": 9}))) == Stall()


def test_one_task_that_acks_is_enough_and_one_that_is_idle_is_not() -> None:
    fails, acks, idle = (0, {}), (0, {}), (0, {})
    failing = moved(fails, (1, {"failed": 1}), (90, {"failed": 9}))
    assert still(failing, moved(acks, (90, {"acked": 1, "failed": 9}))) == Stall()
    assert still(failing, moved(idle, (90, {}))) == Stall(fails=9, fails_s=90)


def test_a_failure_after_a_long_silence_is_none_yet_and_an_old_one_no_more() -> None:
    once = [(0, {"acked": 5}), (3600, {"acked": 5}), (3601, {"acked": 5, "failed": 1})]
    assert still(moved(*once)) == Stall()
    assert still(moved(*once, (3670, {"acked": 5, "failed": 1}))) == Stall()


def test_an_ack_now_and_then_is_enough() -> None:
    assert still(moved(*((at, {"acked": at // 50, "failed": at}) for at in range(0, 500, 10)))) == Stall()
