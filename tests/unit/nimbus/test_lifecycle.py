"""The status machine, edge by edge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree.errors import UsageError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.lifecycle import (
    ACTIVE,
    INACTIVE,
    KILLED,
    REBALANCING,
    Activate,
    Deactivate,
    Kill,
    Rebalance,
    ask,
    is_due,
    rebalanced,
)
from tupletree.parallelism import tasks_of_record
from tupletree.v1 import topology_pb2 as pb

Status = pb.TopologyStatus


def record(status: Status = ACTIVE, **given: Any) -> pb.TopologyRecord:
    return pb.TopologyRecord(
        id="wc-1-1",
        name="wc",
        status=status,
        conf_json=json.dumps({"topology.message.timeout.secs": 40}),
        workers=2,
        **{"tasks": {"split": 4, "lines": 2}, "executors": {"split": 4, "lines": 2}, **given},
    )


@pytest.mark.parametrize("status", [ACTIVE, INACTIVE])
def test_activate_and_deactivate_set_the_status_and_are_idempotent(status: Status) -> None:
    assert ask(record(status), Activate(), 0).status == ACTIVE
    assert ask(record(status), Deactivate(), 0).status == INACTIVE
    assert ask(record(ACTIVE), Activate(), 0) == record(ACTIVE)
    assert ask(record(INACTIVE), Deactivate(), 0) == record(INACTIVE)


@pytest.mark.parametrize("status", [ACTIVE, INACTIVE, REBALANCING, KILLED])
def test_a_kill_waits_for_the_message_timeout_or_as_told_and_again_when_repeated(status: Status) -> None:
    killed = ask(record(status), Kill(None), 100)
    assert (killed.status, killed.pending.due_unix_s) == (KILLED, 140)
    again = ask(killed, Kill(5), 110)
    assert again.pending.due_unix_s == 115
    assert not is_due(again, 114.9)
    assert is_due(again, 115)
    assert is_due(again, 114.9, is_drained=True)


@pytest.mark.parametrize("request_", [Activate(), Deactivate(), Rebalance(None, 1, {})])
def test_a_killed_topology_takes_nothing_but_another_kill(request_: lifecycle.Request) -> None:
    with pytest.raises(UsageError, match="'wc' is being killed"):
        ask(record(KILLED), request_, 0)


@pytest.mark.parametrize("status", [ACTIVE, INACTIVE])
def test_a_rebalance_waits_then_changes_workers_and_executors_and_resumes(status: Status) -> None:
    waiting = ask(record(status), Rebalance(3, 5, {"split": 2}), 10)
    assert (waiting.status, waiting.pending.due_unix_s, waiting.workers) == (REBALANCING, 13, 2)
    done = rebalanced(waiting)
    assert (done.status, done.workers) == (status, 5)
    assert dict(done.executors) == {"split": 2, "lines": 2}
    assert dict(done.tasks) == {"split": 4, "lines": 2}
    assert not done.HasField("pending")


def test_a_rebalance_of_tasks_gives_all_tasks_new_ids_and_resumes() -> None:
    before = record(executors={"split": 4, "lines": 1})
    waiting = ask(before, Rebalance(3, 0, {}, {"split": 6}), 10)
    assert (waiting.status, dict(waiting.tasks), waiting.first_task) == (REBALANCING, {"split": 4, "lines": 2}, 0)
    done = rebalanced(waiting)
    assert tasks_of_record(before) == {"lines": range(1, 3), "split": range(3, 7)}
    assert tasks_of_record(done) == {"lines": range(7, 9), "split": range(9, 15)}
    assert dict(done.executors) == {"split": 6, "lines": 1}, "one for each task, as before"
    again = rebalanced(ask(done, Rebalance(3, 0, {"lines": 3}, {"split": 2, "lines": 5}), 20))
    assert tasks_of_record(again) == {"lines": range(15, 20), "split": range(20, 22)}
    assert dict(again.executors) == {"split": 2, "lines": 3}


def test_the_same_number_of_tasks_changes_nothing() -> None:
    assert rebalanced(ask(record(), Rebalance(0, 0, {}, {"split": 4}), 10)) == record()


def test_a_rebalance_that_names_nothing_keeps_workers_and_executors() -> None:
    done = rebalanced(ask(record(), Rebalance(0, 0, {}), 10))
    assert done == record()


def test_status_changes_during_a_rebalance_take_effect_after_it() -> None:
    waiting = ask(record(), Rebalance(3, 0, {}), 10)
    assert rebalanced(ask(waiting, Deactivate(), 11)).status == INACTIVE
    again = ask(ask(waiting, Deactivate(), 11), Rebalance(3, 7, {}), 12)
    assert (again.pending.due_unix_s, rebalanced(again).status, rebalanced(again).workers) == (15, INACTIVE, 7)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (Rebalance(None, 0, {"nope": 1}), "has no component 'nope'; it has lines, split"),
        (
            Rebalance(None, 0, {"split": 5}),
            "'split' has 4 tasks, and so at most 4 executors, not 5; --tasks split=5 changes the number of its tasks",
        ),
        (Rebalance(None, 0, {}, {"nope": 1}), "has no component 'nope'; it has lines, split"),
        (Rebalance(None, 0, {}, {"split": 0}), "'split' can have 1 to 100000 tasks, not 0"),
        (Rebalance(None, 0, {"split": 3}, {"split": 2}), "'split' has 2 tasks, and so at most 2 executors, not 3"),
        (Rebalance(None, 0, {"split": 2}, {"split": 1}), "'split' has 1 task, and so at most 1 executor, not 2"),
        (Rebalance(None, 0, {}, {"lines": 20_000}), "would have 2000. executors; the limit is 10000"),
        (Rebalance(None, 0, {"split": 2}, {"split": 100_000}), "would have 10000. tasks; the limit is 100000"),
        (Rebalance(None, 0, {"split": 0}), "not 0"),
        (Rebalance(None, 1_000_000, {}), "at most 2000 workers"),
        (Kill(-1), "from 0 to"),
        (Kill(float("nan")), "from 0 to"),
        (Rebalance(float("inf"), 0, {}), "from 0 to"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(request_: lifecycle.Request, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ask(record(), request_, 0)
