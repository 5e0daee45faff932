"""What a topology's record says before and after its configuration is changed, and what supervisors make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import applied, cluster, settled

from tupletree import config
from tupletree._wire.conf_changes import launch_conf_json, live_values
from tupletree.config import KEYS
from tupletree.config.changes import FIXED, LIVE, RESTART, change_of
from tupletree.config.effective import settings
from tupletree.config.keys import TOPOLOGY_FAMILIES
from tupletree.errors import UsageError
from tupletree.nimbus.conf_changes import MAX_KEYS, SetConf
from tupletree.nimbus.leader.lifecycle import (
    ACTIVE,
    INACTIVE,
    REBALANCING,
    Activate,
    Kill,
    Rebalance,
    ask,
    rebalanced,
)
from tupletree.nimbus.leader.planner import Update, decide, placement_of
from tupletree.nimbus.rpc_replies import shown
from tupletree.v1 import topology_pb2 as pb

PENDING = "topology.max.spout.pending"
SHARDS = "topology.acker.executors"
TIMEOUT = "topology.message.timeout.secs"
TICKS = "topology.tick.tuple.freq.secs"
INTERVAL = "topology.state.checkpoint.interval.ms"
OWN = {"my.key": 1, "db.password": "hidden"}


def record(status: pb.TopologyStatus = ACTIVE, **fields: Any) -> pb.TopologyRecord:
    conf = {**config.topology_part(config.defaults()), TIMEOUT: 40, **OWN}
    return pb.TopologyRecord(
        id="wc-1-1",
        name="wc",
        status=status,
        conf_json=config.encode_conf(conf),
        workers=2,
        tasks={"split": 4},
        executors={"split": 4},
        **fields,
    )


def changed(
    before: pb.TopologyRecord, *remove: str, now_s: float = 100, wait_s: float | None = None, **conf: Any
) -> pb.TopologyRecord:
    named = {name.replace("_", "."): value for name, value in conf.items()}
    return ask(before, SetConf(json.dumps(named), remove, wait_s), now_s)


def conf_of(one: pb.TopologyRecord) -> dict[str, Any]:
    return dict(json.loads(one.conf_json))


def test_every_key_of_a_topology_says_how_it_changes() -> None:
    names = {name for name, key in KEYS.items() if key.family in TOPOLOGY_FAMILIES}
    assert names == LIVE | RESTART | FIXED.keys()
    assert not (LIVE & RESTART or (LIVE | RESTART) & FIXED.keys())
    assert {change_of(name) for name in KEYS.keys() - names} == {"daemon"}
    assert change_of("my.key") == change_of("spark.sql.shuffle.partitions") == "restart"


@pytest.mark.parametrize("status", [ACTIVE, INACTIVE])
def test_a_live_key_changes_at_once_and_workers_start_without_it(status: pb.TopologyStatus) -> None:
    before = record(status)
    after = changed(before, topology_max_spout_pending=7)
    assert after.status == status and not after.HasField("pending")
    assert conf_of(after)[PENDING] == 7
    assert (dict(after.submitted_conf), list(after.live_keys)) == ({PENDING: "null"}, [PENDING])
    assert launch_conf_json(after) == before.conf_json, "the supervisors see no change, and restart nothing"
    assert live_values(after) == {PENDING: 7}
    assert changed(after, topology_max_spout_pending=7) == after
    assert changed(after, PENDING) == before
    assert changed(after, topology_max_spout_pending=None) == before, "the value at submission is no change"
    again = changed(after, topology_max_spout_pending=8)
    assert dict(again.submitted_conf) == {PENDING: "null"} and live_values(again) == {PENDING: 8}


def test_another_key_waits_for_a_restart_and_is_then_what_workers_start_with() -> None:
    before = record(INACTIVE)
    waits = changed(before, topology_message_timeout_secs=60, my_key=2)
    assert (waits.status, waits.conf_json) == (REBALANCING, before.conf_json)
    assert (waits.pending.due_unix_s, waits.pending.resume, waits.pending.keeps_placement) == (140, INACTIVE, True)
    assert dict(waits.pending.conf) == {TIMEOUT: "60", "my.key": "2"}
    after = rebalanced(waits)
    assert (after.status, after.HasField("pending")) == (INACTIVE, False)
    assert (conf_of(after)[TIMEOUT], conf_of(after)["my.key"]) == (60, 2)
    assert launch_conf_json(after) == after.conf_json and not after.live_keys
    assert dict(after.submitted_conf) == {TIMEOUT: "40", "my.key": "1"}
    assert rebalanced(changed(after, TIMEOUT, "my.key")) == before
    assert changed(after, topology_message_timeout_secs=60) == after


def test_another_number_of_shards_begins_with_the_restart() -> None:
    before = record(acker_shards=2)
    waits = changed(before, topology_acker_executors=7)
    assert waits.acker_shards == 2
    after = rebalanced(waits)
    assert after.acker_shards == 7
    assert rebalanced(changed(after, topology_message_timeout_secs=60)).acker_shards == 7
    assert rebalanced(changed(after, SHARDS)) == before
    for asked, sentence in ((0, r"tracks its tuples, and .* 0 would go on without"), (2001, r"the limit is 2000")):
        with pytest.raises(UsageError, match=sentence):
            changed(before, topology_acker_executors=asked)
    with pytest.raises(UsageError, match=r"does not track its tuples, and .* 1 would go on with ackers"):
        changed(record(), topology_acker_executors=1)


def test_shards_that_follow_the_workers_follow_those_of_a_rebalance_that_waits_too() -> None:
    fixed = rebalanced(changed(record(acker_shards=2), topology_acker_executors=7))
    waits = ask(fixed, Rebalance(0, 5, {}), 100)
    assert rebalanced(changed(waits, topology_acker_executors=None)).acker_shards == 5


def test_a_key_that_was_not_set_is_gone_when_it_is_unset() -> None:
    before = record()
    after = rebalanced(changed(before, your_key=[1]))
    assert conf_of(after)["your.key"] == [1] and dict(after.submitted_conf) == {"your.key": ""}
    assert rebalanced(changed(after, "your.key")) == before


def test_what_was_changed_with_a_restart_goes_on_changing_with_restarts() -> None:
    """Workers are started with the value at submission of a live key: that must not become true of such a key."""
    ticking = rebalanced(changed(record(), topology_tick_tuple_freq_secs=5))
    assert changed(ticking, topology_tick_tuple_freq_secs=6).status == REBALANCING
    faster = record()
    faster.conf_json = config.encode_conf({**conf_of(faster), TICKS: 5})
    live = changed(faster, topology_tick_tuple_freq_secs=6)
    assert live.status == ACTIVE and list(live.live_keys) == [TICKS]
    silent = changed(live, topology_tick_tuple_freq_secs=None)
    assert silent.status == REBALANCING, "tasks count their ticks from the start or not at all"
    assert not rebalanced(silent).live_keys and conf_of(rebalanced(silent))[TICKS] is None


def test_a_live_key_that_is_newer_than_the_submission_changes_live() -> None:
    before = record()
    before.conf_json = config.encode_conf({name: one for name, one in conf_of(before).items() if name != PENDING})
    after = changed(before, topology_max_spout_pending=7)
    assert (launch_conf_json(after), live_values(after)) == (before.conf_json, {PENDING: 7})
    assert changed(after, PENDING) == before


def test_changes_join_a_rebalance_that_waits_and_a_rebalance_joins_them() -> None:
    waits = ask(record(), Rebalance(50, 3, {"split": 2}), 100)
    both = changed(waits, topology_message_timeout_secs=60, wait_s=5)
    assert (both.pending.due_unix_s, both.pending.workers, both.pending.keeps_placement) == (150, 3, False)
    assert dict(both.pending.conf) == {TIMEOUT: "60"}
    live = changed(both, topology_max_spout_pending=7)
    assert live_values(live) == {PENDING: 7} and live.pending == both.pending
    after = rebalanced(ask(live, Rebalance(0, 4, {}), 120))
    assert (after.workers, conf_of(after)[TIMEOUT], conf_of(after)[PENDING]) == (4, 60, 7)
    undone = changed(both, TIMEOUT)
    assert conf_of(rebalanced(undone))[TIMEOUT] == 40 and not rebalanced(undone).submitted_conf
    assert ask(changed(record(INACTIVE), my_key=2), Activate(), 101).pending.resume == ACTIVE


def test_a_killed_topology_is_not_changed() -> None:
    with pytest.raises(UsageError, match="being killed"):
        changed(ask(record(), Kill(None), 0), topology_max_spout_pending=7)


@pytest.mark.parametrize(
    ("conf", "remove", "sentence"),
    [
        ({"topology.max.spout.pendin": 7}, [], "did you mean 'topology.max.spout.pending'"),
        ({}, ["topology.max.spout.pendin"], "did you mean 'topology.max.spout.pending'"),
        ({PENDING: 0}, [], "takes a whole number of at least 1"),
        ({PENDING: 7, "topology.tasks": 3}, [], "numbers of tasks are settled at submission"),
        ({}, ["topology.state.id"], "cannot be changed in a running topology"),
        ({"topology.workers": 3}, [], "tupletree rebalance NAME --workers N"),
        ({"topology.users": ["me"]}, [], "rights"),
        ({"nimbus.seeds": ["a"]}, [], "belongs to the cluster"),
        ({PENDING: 7}, [PENDING], "both set and unset"),
        ({}, [], "no configuration key is named"),
        ({f"a{number}": 1 for number in range(MAX_KEYS + 1)}, [], "at most 200"),
        ({"a\n": 1}, [], "configuration key must be a name"),
    ],
)
def test_a_wrong_request_changes_nothing(conf: dict[str, Any], remove: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        ask(record(), SetConf(json.dumps(conf), remove, None), 0)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": NaN}', '{"a": ' + "[" * 60 + "]" * 60 + "}", " " * 300_000])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        ask(record(), SetConf(text, ["my.key"], None), 0)


def test_a_record_does_not_grow_without_bound() -> None:
    one = record()
    with pytest.raises(UsageError, match="600000 bytes"):
        for number in range(5):
            one = rebalanced(ask(one, SetConf(json.dumps({f"k{number}": "x" * 200_000}), [], 0), 0))


def test_a_checkpoint_interval_stays_below_the_message_timeout_now_and_after_the_restart() -> None:
    stateful = record()
    stateful.tasks["$checkpointspout"] = 1
    assert live_values(changed(stateful, topology_state_checkpoint_interval_ms=39_000)) == {INTERVAL: 39_000}
    for conf in ({INTERVAL: 40_000}, {INTERVAL: 50_000, TIMEOUT: 60}, {TIMEOUT: 1}):
        with pytest.raises(UsageError, match="must be less than"):
            ask(stateful, SetConf(json.dumps(conf), [], None), 0)
    assert changed(record(), topology_state_checkpoint_interval_ms=50_000).status == ACTIVE, "it takes no checkpoints"


def test_a_due_restart_leaves_the_executors_where_they_are_and_wakes_their_supervisors() -> None:
    runs = settled(cluster(record(acker_shards=2)))
    (stored,) = runs.records.values()
    waits = applied(cluster(changed(stored.value, my_key=2), assignments=runs.assignments))
    assert not decide(waits), "it is not due"
    (change,) = decide(cluster(changed(stored.value, my_key=2, now_s=0), assignments=runs.assignments))
    assert isinstance(change, Update) and change.record is not None and change.assignment is None
    assert conf_of(change.record.value)["my.key"] == 2 and change.record.value.status == ACTIVE
    placed = placement_of(runs.assignments["wc-1-1"].value)
    assert change.touched == {slot.supervisor_id for slot in placed}


def test_secrets_are_masked_in_all_that_is_shown() -> None:
    waits = changed(rebalanced(changed(record(), db_password="older")), db_password="newer", wait_s=9)
    text = str(shown(waits, 0))
    assert not any(secret in text for secret in ("hidden", "older", "newer"))
    assert "db.password" in text


def test_settings_say_where_each_value_comes_from() -> None:
    waits = changed(changed(record(), topology_max_spout_pending=7), my_key=2)
    found = {
        one["key"]: one for one in settings(conf_of(waits), waits.submitted_conf, waits.pending.conf, waits.workers)
    }
    assert found[TIMEOUT] == {"key": TIMEOUT, "value": 40, "source": "submission", "changes": "restart"}
    assert found[TICKS] == {"key": TICKS, "value": None, "source": "default", "changes": "live"}
    assert found[PENDING] == {
        "key": PENDING, "value": 7, "source": "changed", "changes": "live", "submitted": None,
    }  # fmt: skip
    assert found["my.key"] == {
        "key": "my.key", "value": 1, "source": "submission", "changes": "restart", "pending": 2,
    }  # fmt: skip
    assert (found["topology.workers"]["value"], found["topology.workers"]["submitted"]) == (2, 1), "it was rebalanced"


VALUES = {
    PENDING: st.one_of(st.none(), st.integers(1, 3)),
    TICKS: st.one_of(st.none(), st.integers(1, 3)),
    TIMEOUT: st.integers(1, 3),
    "my.key": st.integers(1, 2),
    "your.key": st.integers(1, 2),
}
SET = st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), VALUES[name]))
STEP = st.one_of(SET, st.sampled_from(sorted(VALUES)), st.just(None))


@given(st.lists(STEP, max_size=12))
def test_whatever_is_changed_in_whatever_order_unsetting_it_brings_the_submission_back(steps: list[Any]) -> None:
    """A step sets a key, unsets a key, or lets the rebalance that waits, if any, take place."""
    one = submitted = record()
    wanted = conf_of(submitted)
    for step in steps:
        launched, status = launch_conf_json(one), one.status
        match step:
            case None:
                one = rebalanced(one) if one.status == REBALANCING else one
            case (name, value):
                one = ask(one, SetConf(json.dumps({name: value}), [], None), 0)
                wanted[name] = value
            case name:
                one = ask(one, SetConf("{}", [name], None), 0)
                wanted.pop(name, None)
                wanted |= {name: conf_of(submitted)[name]} if name in conf_of(submitted) else {}
        if step is not None or status != REBALANCING:
            assert launch_conf_json(one) == launched, "only a restart changes what workers are started with"
    final = rebalanced(one) if one.status == REBALANCING else one
    assert conf_of(final) == wanted
    assert {**json.loads(launch_conf_json(final)), **live_values(final)} == wanted
    removed = ask(final, SetConf("{}", list(VALUES), None), 0)
    assert (rebalanced(removed) if removed.status == REBALANCING else removed) == submitted
