"""The log of the blacklist: it names the machine and the reason, also after the machine is gone."""

from __future__ import annotations

import logging

import pytest

from tests.unit.nimbus.planner_snapshots import record, supervisor
from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.blacklist import BlacklistRule
from tupletree.nimbus.leader.blacklisting import blacklisted
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.scheduling import Scheduling
from tupletree.v1 import topology_pb2 as pb

WHY = "it gets no new workers for 1800 s after 1 failure within 300 s: its supervisor was lost"


def state(names: str, *records: pb.TopologyRecord) -> ClusterState:
    machines = {one: supervisor(one, 1, 2) for one in names}
    return ClusterState({one.id: Versioned(one, 0) for one in records}, {}, machines, {}, {})


def leader(*, by_resources: bool = False) -> LeaderState:
    return LeaderState(1, 30, 120, 0, Scheduling(by_resources, blacklist=BlacklistRule(1)))


def test_the_log_names_the_machine_and_why_it_is_avoided_or_released(caplog: pytest.LogCaptureFixture) -> None:
    leads = leader()
    with caplog.at_level(logging.INFO, "tupletree.nimbus"):
        assert blacklisted(leads, state("ab"), {}, (), 0) == frozenset()
        assert blacklisted(leads, state("b"), {}, (), 1) == {"a"}
        assert blacklisted(leads, state("ab", record(workers=2)), {}, (), 2) == {"a"}
        assert blacklisted(leads, state("ab", record(workers=3)), {}, (), 3) == frozenset()
    assert caplog.messages == [
        f"supervisor.blacklisted id=a host=a.host cause='{WHY}'",
        "supervisor.released id=a host=a.host cause='topologies lack room without it'",
    ]
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]


def test_by_resources_only_a_topology_without_room_releases_a_machine() -> None:
    leads, wide = leader(by_resources=True), record(workers=4)
    blacklisted(leads, state("ab"), {}, (), 0)
    blacklisted(leads, state("b"), {}, (), 1)
    assert blacklisted(leads, state("ab", wide), {}, (), 2) == {"a"}
    leads.shortages[wide.id] = "None of its 4 executors has a place: …"
    killed = record(workers=4, status=lifecycle.KILLED)
    assert blacklisted(leads, state("ab", killed), {}, (), 3) == {"a"}
    assert blacklisted(leads, state("ab", wide), {}, (), 4) == frozenset()


def pooled(**pools: int) -> LeaderState:
    return LeaderState(1, 30, 120, 0, Scheduling(blacklist=BlacklistRule(1), pools=pools))


def test_a_topology_that_wants_more_than_its_pool_has_releases_no_machine() -> None:
    leads, wide = pooled(ann=1), record(workers=4, owner="ann")
    blacklisted(leads, state("abc"), {}, (), 0)
    blacklisted(leads, state("bc"), {}, (), 1)
    leads.shortages[wide.id] = (
        "It has 2 of 4 workers: no other slot is free on the machines of its owner's pool, which has 1 of 1 "
        "(multitenant.scheduler.user.pools)."
    )
    placed = {wide.id: {Slot("b", 1): ((1, 2),), Slot("b", 2): ((3, 4),)}}
    assert blacklisted(leads, state("abc", wide), placed, (), 2) == {"a"}
    others = record("others", workers=3, owner="bob")
    assert blacklisted(leads, state("abc", wide, others), placed, (), 3) == frozenset(), "there is room on c for two"


def test_room_in_the_pool_of_another_user_keeps_no_machine_on_the_list() -> None:
    leads = pooled(ann=2, bob=1)
    ann, bob = record("ann's", workers=4, owner="ann"), record("bob's", workers=1, owner="bob")
    placed = {ann.id: {Slot("b", 1): ((1, 2),), Slot("b", 2): ((3, 4),)}, bob.id: {Slot("c", 1): ((1, 4),)}}
    for at_s, names in enumerate(("abc", "bc")):
        blacklisted(leads, state(names, bob), placed, (), at_s)
    assert blacklisted(leads, state("abc", bob), placed, (), 2) == {"a"}
    assert blacklisted(leads, state("abc", ann, bob), placed, (), 3) == frozenset()


def test_a_blacklisted_machine_of_a_pool_is_released_if_the_pool_lacks_slots_without_it() -> None:
    leads, runs = pooled(ann=2), record(workers=2, owner="ann")
    placed = {runs.id: {Slot("a", 1): ((1, 2),), Slot("b", 1): ((3, 4),)}}
    for at_s, names in enumerate(("abcd", "bcd", "abcd")):
        listed = blacklisted(leads, state(names, runs), placed, (), at_s)
    assert listed == {"a"}
    second = record("second", workers=2, owner="ann")
    assert blacklisted(leads, state("abcd", runs, second), placed, (), 3) == frozenset()
