"""Who counts as dead, and when."""

from __future__ import annotations

from tupletree.nimbus.leader.liveness import Liveness
from tupletree.nimbus.leader.scheduler import Slot

A, B = Slot("a", 1), Slot("b", 1)
ONE, TWO = ((1, 1),), ((2, 2),)


def liveness(now_s: float = 0.0) -> Liveness:
    return Liveness(timeout_s=30, launch_s=120, now_s=now_s)


def walk(one: Liveness, from_s: float, to_s: float) -> None:
    """Nimbus listens all the while."""
    at_s = from_s
    while at_s < to_s:
        at_s = min(to_s, at_s + 1)
        one.step(at_s)


def test_a_new_leader_takes_all_for_alive_for_one_timeout() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 1)
    walk(one, 0, 29.9)
    assert one.dead({}, 29.9) == frozenset()
    assert one.next_deadline_s({}, 29.9) == 30
    assert one.dead({}, 30) == {("t", A)}


def test_a_worker_is_dead_a_timeout_after_its_last_report() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 0)
    assert one.on_report("t", A, 50)
    walk(one, 0, 80)
    assert one.dead({}, 79.9) == frozenset()
    assert one.dead({}, 80) == {("t", A)}


def test_a_newly_assigned_worker_has_the_launch_grace_until_it_reports() -> None:
    one = liveness()
    one.assigned({}, 0)
    one.assigned({"t": {A: ONE}}, 40)
    walk(one, 0, 160)
    assert one.dead({}, 159.9) == frozenset()
    assert one.dead({}, 160) == {("t", A)}
    one.on_report("t", A, 100)
    assert one.dead({}, 129.9) == frozenset()
    assert one.dead({}, 130) == {("t", A)}


def test_a_worker_whose_executors_change_starts_anew() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 0)
    one.on_report("t", A, 10)
    one.assigned({"t": {A: TWO}}, 35)
    walk(one, 0, 154.9)
    assert one.dead({}, 154.9) == frozenset()
    one.assigned({"t": {A: TWO}}, 154.9)
    assert one.dead({}, 155) == {("t", A)}


def test_a_topology_may_be_more_patient_but_not_less() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}, "u": {B: ONE}}, 0)
    walk(one, 0, 60)
    assert one.dead({"t": 61, "u": 5}, 60) == {("u", B)}


def test_the_report_of_an_unassigned_worker_is_nobodys() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 0)
    assert not one.on_report("t", B, 1)
    assert not one.on_report("u", A, 1)


def test_a_pause_of_nimbus_itself_is_not_the_workers_silence() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 0)
    one.on_report("t", A, 0)
    walk(one, 0, 10)
    one.step(100)
    assert one.dead({}, 100) == frozenset()
    walk(one, 100, 130)
    assert one.dead({}, 130) == {("t", A)}


def test_looks_may_take_as_long_as_they_will_while_the_clock_steps() -> None:
    one = liveness()
    for look in range(12):
        one.assigned({"t": {A: ONE}}, look * 5.5)
        assert one.dead({}, look * 5.5) == (frozenset() if look * 5.5 < 30 else {("t", A)})
        walk(one, look * 5.5, look * 5.5 + 5.5)


def test_a_look_right_after_the_process_was_stopped_finds_nobody_dead() -> None:
    one = liveness()
    one.assigned({"t": {A: ONE}}, 0)
    walk(one, 0, 10)
    assert one.dead({}, 100) == frozenset(), "the clock has not stepped yet"
    walk(one, 99, 129)
    assert one.dead({}, 129) == frozenset()
    walk(one, 129, 130.1)
    assert one.dead({}, 130.1) == {("t", A)}
