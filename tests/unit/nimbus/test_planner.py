"""The whole decision, from snapshots of small clusters."""

from __future__ import annotations

from dataclasses import replace

from planner_snapshots import NOW, applied, cluster, record, settled, supervisor

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.history import past_topology
from tupletree.nimbus.leader.planner import (
    Failure,
    Remove,
    Update,
    decide,
    placement_of,
)
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.nimbus.leader.unscheduled import unscheduled


def test_a_new_topology_gets_slots_shards_and_version_one() -> None:
    (change,) = decide(cluster(record()))
    assert isinstance(change, Update)
    assert change.assignment is not None
    assignment = change.assignment.value
    assert (assignment.epoch, assignment.version, assignment.shard_version) == (3, 1, 1)
    assert [(one.host, one.port, len(one.executors)) for one in assignment.workers] == [
        ("a.host", 1, 2),
        ("b.host", 1, 2),
    ]
    assert [one.acker_id for one in assignment.shards] == ["k1", "k2"]
    assert change.touched == {"a", "b"}
    assert "runs 4 of 4 executors in 2 slots" in change.sentence


def test_another_epoch_alone_changes_nothing() -> None:
    assert decide(replace(settled(cluster(record())), epoch=9)) == []


def test_a_dead_worker_moves_and_its_memory_goes_with_its_machine() -> None:
    before = settled(cluster(record()))
    gone = replace(
        before,
        supervisors={"a": before.supervisors["a"]},
        dead=frozenset({("wc-1-1", Slot("b", 1))}),
        worker_presences={"wc-1-1": {Slot("a", 1), Slot("b", 1)}},
    )
    (change,) = decide(gone)
    assert isinstance(change, Update)
    assert change.assignment is not None
    assert set(placement_of(change.assignment.value)) == {Slot("a", 1), Slot("a", 2)}
    assert change.assignment.value.shard_version == 1
    assert change.forget == (Slot("b", 1),)
    assert change.touched == {"a", "b"}


def test_a_supervisor_that_is_away_keeps_its_living_workers() -> None:
    before = settled(cluster(record()))
    assert decide(replace(before, supervisors={})) == []


def test_a_dead_acker_changes_shards_only() -> None:
    before = settled(cluster(record()))
    (change,) = decide(replace(before, ackers={"k2": Acker("k2:1")}))
    assert isinstance(change, Update)
    assert change.assignment is not None
    after = change.assignment.value
    assert list(after.workers) == list(before.assignments["wc-1-1"].value.workers)
    assert (after.version, after.shard_version) == (2, 2)
    assert change.touched == frozenset()


def test_a_killed_topology_is_left_alone_until_it_is_due_and_removed_then() -> None:
    before = settled(cluster(record()))
    killed = lifecycle.ask(record(), lifecycle.Kill(10), NOW)
    waiting = replace(before, records={killed.id: Versioned(killed, 1)}, dead=frozenset({("wc-1-1", Slot("a", 1))}))
    assert decide(waiting) == []
    (change,) = decide(replace(waiting, now_unix_s=NOW + 10))
    past = past_topology(killed, before.assignments["wc-1-1"].value, NOW + 10)
    assert change == Remove("wc-1-1", 1, "Topology 'wc' is removed after its kill.", past)
    (drained,) = decide(replace(waiting, drained=frozenset({"wc-1-1"})))
    assert drained == replace(change, past=past_topology(killed, before.assignments["wc-1-1"].value, NOW))
    assert decide(replace(before, drained=frozenset({"wc-1-1"}))) == []


def test_a_rebalance_goes_on_when_nothing_is_left_to_finish() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(600, 4, {"split": 2}), NOW)
    waiting = replace(before, records={asked.id: Versioned(asked, 1)})
    assert decide(waiting) == []
    (change,) = decide(replace(waiting, drained=frozenset({"wc-1-1"})))
    assert isinstance(change, Update) and change.record is not None
    assert change.record.value.status == lifecycle.ACTIVE


def test_a_rebalance_that_is_due_changes_record_and_assignment_together() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(0, 4, {"split": 2}), NOW)
    (change,) = decide(replace(before, records={asked.id: Versioned(asked, 1)}))
    assert isinstance(change, Update)
    assert change.record is not None
    assert change.assignment is not None
    assert (change.record.value.status, change.record.version) == (lifecycle.ACTIVE, 1)
    assert placement_of(change.assignment.value) == {Slot("a", 1): ((1, 2),), Slot("b", 1): ((3, 4),)}


def test_a_rebalance_waits_while_no_supervisor_is_registered() -> None:
    before = settled(cluster(record()))
    asked = lifecycle.ask(record(), lifecycle.Rebalance(0, 4, {}), NOW)
    assert decide(replace(before, records={asked.id: Versioned(asked, 1)}, supervisors={})) == []


def test_topologies_are_served_in_the_order_they_came() -> None:
    first, second = record("one", 3, submitted_unix_s=1), record("two", 3, submitted_unix_s=2)
    after = settled(cluster(second, first))
    assert len(after.assignments["one-1-1"].value.workers) == 3
    assert len(after.assignments["two-1-1"].value.workers) == 1


def test_an_assignment_without_a_record_is_removed() -> None:
    before = settled(cluster(record()))
    (change,) = decide(replace(before, records={}))
    assert isinstance(change, Remove)
    assert change.record_version == -1


def test_why_a_topology_does_not_run_is_a_sentence() -> None:
    assert unscheduled(record(), None, 0) == "None of its 4 executors has a slot: no slot is free."
    ok = settled(cluster(record())).assignments["wc-1-1"].value
    assert unscheduled(record(), ok, 0) == ""
    without = settled(cluster(record(), ackers={})).assignments["wc-1-1"].value
    assert unscheduled(record(), without, 0) == "No acker is available for 2 of 2 shards; spouts wait."


def test_fewer_workers_than_wanted_is_a_reason_where_no_slot_is_free() -> None:
    ok = settled(cluster(record())).assignments["wc-1-1"].value
    assert unscheduled(record(workers=3), ok, 0) == "It has 2 of 3 workers: no slot is free."
    assert unscheduled(record(workers=3), ok, 1) == "", "the next decision takes the slot"
    assert unscheduled(record(workers=9, tasks=4), ok, 0) == "It has 2 of 9 workers: no slot is free."
    few = settled(cluster(record(tasks=2))).assignments["wc-1-1"].value
    assert unscheduled(record(workers=9, tasks=2), few, 0) == "", "there is no executor for a third"


def test_what_cannot_be_decided_for_one_topology_does_not_concern_the_others() -> None:
    broken = record("broken", submitted_unix_s=1)
    broken.status = lifecycle.REBALANCING
    broken.pending.resume = 9  # type: ignore[assignment]  # a status of a version to come
    changes = decide(cluster(broken, record("wc", submitted_unix_s=2)))
    assert [(type(one), one.topology_id) for one in changes] == [(Failure, "broken-1-1"), (Update, "wc-1-1")]
    assert "planning its changes failed" in changes[0].reason  # type: ignore[union-attr]


def test_a_topology_that_is_held_back_keeps_what_it_has_and_claims_nothing() -> None:
    before = settled(cluster(record("a", submitted_unix_s=1)))
    full = replace(
        before,
        supervisors={"a": supervisor("a", 1, 2), "b": supervisor("b", 1)},
        records={
            **before.records,
            "b-1-1": Versioned(record("b", submitted_unix_s=2), 0),
            "c-1-1": Versioned(record("c", submitted_unix_s=3), 0),
        },
    )
    held = settled(replace(full, held=frozenset({"b-1-1"})))
    assert held.assignments["a-1-1"] == before.assignments["a-1-1"]
    assert "b-1-1" not in held.assignments
    assert len(held.assignments["c-1-1"].value.workers) == 1
    assert decide(replace(full, held=frozenset({"a-1-1", "b-1-1", "c-1-1"}))) == []


def test_a_topology_that_cannot_be_read_is_left_as_it_is_and_keeps_its_slots() -> None:
    broken, other = record("broken", workers=2), record("other", workers=4)
    before = applied(cluster(broken))
    known = before.assignments["broken-1-1"]
    slots = set(placement_of(known.value))
    workers = {"broken-1-1": slots}
    after_look = replace(before, records={**before.records, "other-1-1": Versioned(other, 0)})
    unread_assignment = replace(after_look, unread_assignments={"broken-1-1": "it holds junk"})
    unread_record = replace(after_look, unread_records={"broken-1-1": "it holds junk"})
    new_leader = replace(unread_assignment, assignments={}, worker_presences=workers)
    only_assignment = replace(unread_record, records={"other-1-1": Versioned(other, 0)})
    for snapshot in (unread_assignment, unread_record, new_leader, only_assignment):
        changes = {change.topology_id: change for change in decide(snapshot)}
        assert changes["broken-1-1"] == Failure("broken-1-1", "it holds junk")
        update = changes["other-1-1"]
        assert isinstance(update, Update)
        assert update.assignment is not None
        assert not slots & placement_of(update.assignment.value).keys()
        held = replace(snapshot, held=frozenset({"broken-1-1"}))
        assert [change.topology_id for change in decide(held)] == ["other-1-1"]


def test_a_killed_topology_whose_assignment_cannot_be_read_is_removed() -> None:
    killed = lifecycle.ask(record(), lifecycle.Kill(0), NOW)
    (change,) = decide(cluster(killed, unread_assignments={"wc-1-1": "it holds junk"}))
    assert isinstance(change, Remove)


def test_a_worker_of_an_unreadable_assignment_takes_no_slot_that_another_topology_is_assigned() -> None:
    other = record("other", workers=2)
    before = applied(cluster(other))
    slots = set(placement_of(before.assignments["other-1-1"].value))
    broken = {"broken-1-1": Versioned(record("broken"), 0), **before.records}
    unread = replace(
        before, records=broken, unread_assignments={"broken-1-1": "junk"}, worker_presences={"broken-1-1": slots}
    )
    assert [change.topology_id for change in decide(unread)] == ["broken-1-1"], "the other stays where it is"
