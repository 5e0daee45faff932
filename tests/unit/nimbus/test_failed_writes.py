"""Which topologies are held back after a write that failed, and for how long."""

from __future__ import annotations

from tupletree.errors import ConflictError, UnavailableError, UsageError
from tupletree.nimbus.leader.failed_writes import Troubles


def test_an_error_of_its_own_holds_a_topology_back_longer_each_time() -> None:
    troubles = Troubles()
    assert troubles.failed("t", UsageError("it is too large"), 10)
    assert troubles.held(10.9) == {"t"}
    assert troubles.next_s(10) == 11
    assert troubles.held(11) == frozenset()
    assert troubles.reason("t").endswith("it is too large")
    assert troubles.failed("t", UsageError("it is too large"), 11)
    assert troubles.next_s(11) == 13
    for _ in range(100):
        troubles.failed("t", UsageError("it is too large"), 20)
    assert troubles.next_s(20) == 80
    assert (troubles.reason("u"), troubles.held(20)) == ("", {"t"})


def test_an_error_that_may_be_everybodys_counts_when_it_comes_again() -> None:
    troubles = Troubles()
    assert not troubles.failed("t", UnavailableError("away"), 0)
    assert (troubles.reason("t"), troubles.held(0)) == ("", frozenset())
    assert troubles.failed("t", UnavailableError("away"), 1)
    assert troubles.held(1) == {"t"}
    conflicts = [troubles.failed("u", ConflictError("changed"), 0) for _ in range(10)]
    assert conflicts == [False] * 9 + [True]


def test_a_success_ends_the_trouble_and_so_does_a_topology_that_needs_nothing() -> None:
    troubles = Troubles()
    troubles.failed("t", UsageError("no"), 0)
    troubles.written("t")
    assert (troubles.reason("t"), troubles.held(0)) == ("", frozenset())
    troubles.failed("t", UsageError("no"), 0)
    troubles.settled(set(), 0.5)
    assert troubles.held(0.5) == {"t"}, "it was not looked at"
    troubles.settled({"t"}, 1)
    assert troubles.reason("t")
    troubles.settled(set(), 1)
    assert troubles.reason("t") == ""


def test_what_an_operator_changes_is_tried_at_once() -> None:
    troubles = Troubles()
    troubles.again("t")
    troubles.failed("t", UsageError("no"), 0)
    troubles.again("t")
    assert troubles.held(0) == frozenset()
    troubles.failed("t", UsageError("no"), 0)
    assert troubles.next_s(0) == 2, "it is still as many failures in a row"
