"""When a topology that waits for a kill or a rebalance has nothing left to finish."""

from __future__ import annotations

from tupletree.nimbus.leader.draining import FRESH_S, Draining
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.v1.nimbus_pb2 import WorkerReport

A, B = Slot("s", 1), Slot("s", 2)


def draining(*reports: tuple[float, Slot, bool, int], is_waiting: bool = True) -> Draining:
    """What is known after reports: when, from where, whether its spouts are deactivated, and what is unfinished."""
    found = Draining()
    if is_waiting:
        found.waiting({"t"})
    for at_s, slot, is_paused, unfinished in reports:
        found.report(WorkerReport(topology_id="t", paused=is_paused, unfinished=unfinished), slot, at_s)
    return found


def is_drained(found: Draining, now_s: float, *slots: Slot) -> bool:
    return found.drained({"t": slots}, now_s) == {"t"}


def test_two_quiet_reports_of_the_only_worker_are_enough_and_one_is_not() -> None:
    assert not is_drained(draining((1, A, True, 0)), 1, A)
    assert is_drained(draining((1, A, True, 0), (2, A, True, 0)), 2, A)


def test_a_spout_that_still_emits_or_anything_unfinished_begins_it_again() -> None:
    assert not is_drained(draining((1, A, True, 0), (2, A, False, 0)), 2, A)
    assert not is_drained(draining((1, A, True, 0), (2, A, True, 1), (3, A, True, 0)), 3, A)
    assert is_drained(draining((1, A, True, 0), (2, A, True, 1), (3, A, True, 0), (4, A, True, 0)), 4, A)


def test_each_worker_reports_after_the_last_one_became_quiet() -> None:
    early = [(1.0, A, True, 0), (2.0, A, True, 0), (2.5, B, True, 0)]
    assert not is_drained(draining(*early), 2.5, A, B)
    assert not is_drained(draining(*early, (3.0, A, True, 0)), 3.0, A, B)
    assert is_drained(draining(*early, (3.0, A, True, 0), (3.5, B, True, 0)), 3.5, A, B)


def test_a_worker_that_is_silent_may_hold_something() -> None:
    quiet = draining((1, A, True, 0), (2, A, True, 0))
    assert not is_drained(quiet, 2, A, B)
    assert not is_drained(quiet, 2 + FRESH_S + 0.1, A)


def test_a_topology_without_workers_has_nothing_to_finish() -> None:
    assert is_drained(draining(), 0)


def test_reports_from_before_the_wait_do_not_count() -> None:
    found = draining((1, A, True, 0), (2, A, True, 0), is_waiting=False)
    assert found.drained({"t": [A]}, 2) == frozenset()
    found.waiting({"t"})
    assert not is_drained(found, 2, A)
    found.waiting(())
    assert not found.drained({"t": [A]}, 2)


def test_a_wait_that_ended_is_forgotten() -> None:
    found = draining((1, A, True, 0), (2, A, True, 0))
    found.waiting(())
    found.waiting({"t"})
    assert not is_drained(found, 2, A)
