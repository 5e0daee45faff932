"""Which topologies are held back after a write that failed, and for how long."""

from __future__ import annotations

from tupletree.errors import ConflictError, UnavailableError, UsageError
from tupletree.nimbus.leader.failed_writes import FailedWrites


def test_an_error_of_its_own_holds_a_topology_back_longer_each_time() -> None:
    failed_writes = FailedWrites()
    assert failed_writes.failed("t", UsageError("it is too large"), 10)
    assert failed_writes.held(10.9) == {"t"}
    assert failed_writes.next_s(10) == 11
    assert failed_writes.held(11) == frozenset()
    assert failed_writes.reason("t").endswith("it is too large")
    assert failed_writes.failed("t", UsageError("it is too large"), 11)
    assert failed_writes.next_s(11) == 13
    for _ in range(100):
        failed_writes.failed("t", UsageError("it is too large"), 20)
    assert failed_writes.next_s(20) == 80
    assert (failed_writes.reason("u"), failed_writes.held(20)) == ("", {"t"})


def test_an_error_that_may_be_everybodys_counts_when_it_comes_again() -> None:
    failed_writes = FailedWrites()
    assert not failed_writes.failed("t", UnavailableError("away"), 0)
    assert (failed_writes.reason("t"), failed_writes.held(0)) == ("", frozenset())
    assert failed_writes.failed("t", UnavailableError("away"), 1)
    assert failed_writes.held(1) == {"t"}
    conflicts = [failed_writes.failed("u", ConflictError("changed"), 0) for _ in range(10)]
    assert conflicts == [False] * 9 + [True]


def test_a_success_ends_the_trouble_and_so_does_a_topology_that_needs_nothing() -> None:
    failed_writes = FailedWrites()
    failed_writes.failed("t", UsageError("no"), 0)
    failed_writes.written("t")
    assert (failed_writes.reason("t"), failed_writes.held(0)) == ("", frozenset())
    failed_writes.failed("t", UsageError("no"), 0)
    failed_writes.forget_finished(set(), 0.5)
    assert failed_writes.held(0.5) == {"t"}, "it was not looked at"
    failed_writes.forget_finished({"t"}, 1)
    assert failed_writes.reason("t")
    failed_writes.forget_finished(set(), 1)
    assert failed_writes.reason("t") == ""


def test_what_an_operator_changes_is_tried_at_once() -> None:
    failed_writes = FailedWrites()
    failed_writes.again("t")
    failed_writes.failed("t", UsageError("no"), 0)
    failed_writes.again("t")
    assert failed_writes.held(0) == frozenset()
    failed_writes.failed("t", UsageError("no"), 0)
    assert failed_writes.next_s(0) == 2, "it is still as many failures in a row"
