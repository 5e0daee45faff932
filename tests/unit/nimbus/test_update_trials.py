"""The trial of an update: how it ends, and the way back after it."""

from __future__ import annotations

from typing import Any

from updates_scene import FIRST, SECOND, on_trial, submitted, version_from

from tupletree.nimbus.leader.lifecycle import ACTIVE, Kill, ask, failed_update, rebalanced
from tupletree.nimbus.leader.update_trials import MAX_TRIAL_S, PlacedSince, outcome
from tupletree.nimbus.updates import Rollback, Update, version_of, versions_of
from tupletree.v1 import topology_pb2 as pb


def error(**fields: Any) -> pb.ComponentError:
    given = {"component_id": "count", "host": "h", "port": 1, "at_unix_s": 101.0, "message": "boom"}
    return pb.ComponentError(**{"ended_worker": True, "first_task": 5, **given, **fields})


def test_a_trial_ends_when_all_workers_are_ready() -> None:
    record = on_trial()
    assert outcome(record, False, [], 101) is None
    end = outcome(record, True, [error()], 101)
    assert end is not None and not end.fault
    assert (end.record.trial_began_unix_s, end.record.version) == (0, 1)
    assert outcome(ask(record, Kill(0), 101), True, [], 101) is None


def test_an_update_whose_worker_cannot_start_is_taken_back() -> None:
    record = on_trial()
    assert record.first_task == 5
    harmless = [error(first_task=1, at_unix_s=103.0), error(first_task=0), error(ended_worker=False)]
    assert outcome(record, False, harmless, 101) is None
    end = outcome(record, False, [*harmless, error(at_unix_s=103.0, message="later"), error()], 104)
    assert end is not None and end.fault == "count at h:1: boom"
    back = rebalanced(end.record, 104)
    assert version_of(back) == version_of(submitted(FIRST))
    assert (back.status, back.trial_began_unix_s, back.HasField("previous"), back.last_version) == (ACTIVE, 0, False, 1)
    late = outcome(record, False, [], 101 + MAX_TRIAL_S)
    assert late is not None and late.fault == "its workers were not ready after 600 s"


def test_a_new_leader_lets_the_workers_report_first() -> None:
    record = on_trial(100)
    assert outcome(record, False, [error()], 1009, since_unix_s=1000) is None
    assert outcome(record, True, [error()], 1009, since_unix_s=1000) is not None
    assert outcome(record, False, [], 1000 + MAX_TRIAL_S, since_unix_s=1000) is None
    assert outcome(record, False, [], 1001 + MAX_TRIAL_S, since_unix_s=1000) is not None


def test_an_update_without_places_is_not_at_fault() -> None:
    """A more important topology has its places, for longer than a trial takes."""
    record, placed = on_trial(100), PlacedSince()
    back_unix_s = 150 + 2 * MAX_TRIAL_S
    for now_unix_s, is_placed in ((110.0, True), (150.0, False), (back_unix_s, False), (back_unix_s + 1, True)):
        since = placed.look(record.id, is_placed, now_unix_s, 50)
        assert outcome(record, False, [], now_unix_s, since) is None
    since = placed.look(record.id, True, back_unix_s + MAX_TRIAL_S + 1, 50)
    assert since == back_unix_s
    end = outcome(record, False, [], back_unix_s + MAX_TRIAL_S + 1, since)
    assert end is not None and end.fault == "its workers were not ready after 600 s"
    placed.keep([])
    assert placed.look(record.id, True, back_unix_s, 50) == 50


def test_a_rollback_in_the_trial_leaves_the_way_back_as_it_was() -> None:
    first = on_trial()
    first.trial_began_unix_s = 0.0
    second = rebalanced(ask(first, Update(first, version_from(first, SECOND, FIRST), 0), 200), 200)
    back = rebalanced(ask(second, Rollback(0), 201), 201)
    assert [one.number for one in versions_of(back)] == [1, 0]
    assert back.previous == first.previous and not back.trial_began_unix_s


def test_an_update_that_is_taken_back_leaves_the_way_back_as_it_was() -> None:
    first = on_trial()
    first.trial_began_unix_s = 0.0
    second = rebalanced(ask(first, Update(first, version_from(first, SECOND, FIRST), 0), 200), 200)
    assert [one.number for one in versions_of(second)] == [2, 1, 0]
    back = rebalanced(failed_update(second, 201), 201)
    assert [one.number for one in versions_of(back)] == [1, 0]
    assert back.previous == first.previous
