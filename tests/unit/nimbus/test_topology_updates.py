"""Other code for a running topology: what it goes on with, what is refused, and how the trial ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner_snapshots import cluster, settled
from updates_scene import (
    FIRST,
    MEMORY,
    OWN,
    PENDING,
    REDIS,
    SECOND,
    TIMEOUT,
    Count,
    Keyed,
    Print,
    conf_of,
    on_trial,
    submission,
    submitted,
    version_from,
    words,
)

from tupletree import Topology, TopologyBuilder, config
from tupletree._coord.forms import encode
from tupletree.connectors.files import FileSpout
from tupletree.errors import UsageError
from tupletree.nimbus.conf_changes import MAX_RECORD_BYTES, SetConf
from tupletree.nimbus.leader.lifecycle import (
    ACTIVE,
    KILLED,
    REBALANCING,
    Activate,
    Kill,
    Rebalance,
    ask,
    failed_update,
    rebalanced,
)
from tupletree.nimbus.leader.planner import Update as Change
from tupletree.nimbus.leader.planner import decide
from tupletree.nimbus.rpc_replies import shown
from tupletree.nimbus.update_requests import checked_update
from tupletree.nimbus.updates import (
    Rollback,
    Update,
    changed_tasks,
    check_update,
    differences,
    goes_back,
    is_same,
    migrated,
    updated,
    version_of,
    versions_of,
)
from tupletree.transactional import TransactionalTopologyBuilder
from tupletree.transactional.memory import MemoryTransactionalSpout
from tupletree.v1 import nimbus_pb2 as rpc


def test_an_update_waits_and_then_takes_the_place_of_what_runs() -> None:
    record = submitted(FIRST)
    version = version_from(record, FIRST, SECOND)
    assert (version.number, version.bundle_sha256, dict(version.tasks)["count"]) == (1, "b" * 64, 3)
    found = differences(record, version)
    assert (found.added, found.removed, found.conf_keys) == (("print",), (), (OWN,))
    assert changed_tasks(record, version) == ["count"]
    waits = ask(record, Update(record, version, 7), 100)
    assert (waits.status, waits.pending.due_unix_s, waits.bundle_sha256) == (REBALANCING, 107, "a" * 64)
    assert [one.bundle_sha256 for one in versions_of(waits)] == ["a" * 64, "b" * 64]
    after = rebalanced(waits, 108)
    assert (after.status, after.version, after.bundle_sha256, after.trial_began_unix_s) == (ACTIVE, 1, "b" * 64, 108)
    assert after.first_task == 1 + sum(record.tasks.values()), "no task has an id that another had"
    assert after.previous == version_of(record)


def test_components_with_a_higher_version_of_their_values_are_migrated() -> None:
    class Second(Count):
        state_version = 2

        def migrate_value(self, key: Any, value: Any, version: int) -> Any: ...

    class New(Second):
        state_version = 3

    running, then = words(Count(), other=Second()), words(Second(), other=Second(), new=New())
    assert migrated(running.outline(), then.outline()) == ["count"]
    assert migrated(then.outline(), running.outline()) == []


def test_what_runs_already_changes_nothing() -> None:
    record = submitted(FIRST)
    assert is_same(record, version_from(record, FIRST, FIRST))
    assert not is_same(record, version_from(record, FIRST, SECOND))


def test_a_rollback_puts_everything_back_and_a_second_one_undoes_it() -> None:
    record = submitted(FIRST)
    after = on_trial()
    after.trial_began_unix_s = 0.0
    back = rebalanced(ask(after, Rollback(0), 200), 200)
    assert version_of(back) == version_of(record)
    assert (back.trial_began_unix_s, back.first_task > after.first_task, back.last_version) == (0, True, 1)
    again = rebalanced(ask(back, Rollback(0), 300), 300)
    assert version_of(again) == version_of(after)
    assert version_from(back, FIRST, SECOND).number == 2, "a number is used once"


counts = st.integers(1, 4)
values = st.integers(5, 7)


@given(
    before=st.fixed_dictionaries({PENDING: values, TIMEOUT: values, OWN: values}),
    after=st.fixed_dictionaries({PENDING: values, TIMEOUT: values, OWN: values}),
    operator=st.dictionaries(st.sampled_from([PENDING, TIMEOUT, OWN, "other.key"]), values),
    workers=st.tuples(counts, counts, st.none() | counts),
    parallelism=st.tuples(counts, counts, st.none() | counts),
)
def test_what_an_operator_has_changed_stays_unless_the_update_changes_it_itself(
    before: dict[str, Any],
    after: dict[str, Any],
    operator: dict[str, Any],
    workers: tuple[int, int, int | None],
    parallelism: tuple[int, int, int | None],
) -> None:
    first = submission(words(parallelism=parallelism[0]), **{**before, "topology.workers": workers[0]})
    second = submission(words(parallelism=parallelism[1]), "b" * 64, **{**after, "topology.workers": workers[1]})
    record = submitted(first)
    if operator:
        changed = ask(record, SetConf(json.dumps(operator), (), 0), 100)
        record = rebalanced(changed) if changed.status == REBALANCING else changed
    if workers[2] is not None or parallelism[2] is not None:
        tasks = {} if parallelism[2] is None else {"count": parallelism[2]}
        record = rebalanced(ask(record, Rebalance(0, workers[2] or 0, {}, tasks), 100))
    version = version_from(record, first, second)

    conf = conf_of(version)
    for key in (PENDING, TIMEOUT, OWN):
        kept = key in operator and before[key] == after[key]
        assert conf[key] == (operator[key] if kept else after[key])
        if kept and operator[key] != after[key]:
            assert version.submitted_conf[key] == str(after[key]), "unset gives it the value of the update"
    assert conf.get("other.key") == operator.get("other.key")
    assert set(version.live_keys) <= set(version.submitted_conf) <= set(operator)
    assert version.workers == (record.workers if workers[0] == workers[1] else workers[1])
    tasks_after = record.tasks["count"] if parallelism[0] == parallelism[1] else parallelism[1]
    assert version.tasks["count"] == tasks_after
    assert 1 <= version.executors["count"] <= tasks_after
    back = updated(updated(record, version, 0.0), version_of(record), 0.0)
    assert version_of(back) == version_of(record)


def spouts(**fields: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("count", FileSpout("/var/log/app"))
    builder.set_bolt("words", Print()).shuffle_grouping("count")
    return builder.create_topology()


@pytest.mark.parametrize(
    ("topology", "conf", "sentence"),
    [
        (spouts(), {}, "component 'count' is a bolt, and a spout in the update: give the spout another id"),
        (words(Print()), {}, "component 'count' keeps a state, which the update would leave behind"),
        (
            words(Keyed()),
            {},
            "component 'count' has stored what a StatefulBolt stores, which a KeyedProcess cannot read",
        ),
        (words(fields=("user",)), {}, "keeps its state by (word), and the update groups its inputs by (user)"),
        (words(fields=("word", "user")), {}, "by (word), and the update groups its inputs by (word, user)"),
        (words(), MEMORY, 'has topology.state.provider "sqlite", and an update cannot make it "memory"'),
        (words(), {"topology.state.id": "other"}, "the states and checkpoints that are stored lie under the id"),
        (words(), {"topology.state.checkpoint.aligned": True}, "the guarantee of a topology is settled at submission"),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_reason(
    topology: Topology, conf: Mapping[str, Any], sentence: str
) -> None:
    record = submitted(FIRST)
    with pytest.raises(UsageError) as refused:
        version_from(record, FIRST, submission(topology, **conf))
    assert sentence in str(refused.value)


def test_an_update_may_have_another_number_of_shards_and_a_rollback_puts_it_back() -> None:
    record = submitted(FIRST)
    version = version_from(record, FIRST, submission(words(), **{"topology.acker.executors": 9}))
    after = updated(record, version, 1.0)
    assert (record.acker_shards, after.acker_shards) == (record.workers, 9)
    assert updated(after, after.previous, 0.0).acker_shards == record.workers


def test_a_rollback_withdraws_an_update_that_waits_and_goes_back_otherwise() -> None:
    after = on_trial()
    after.trial_began_unix_s = 0.0
    assert goes_back(after)
    third = submission(words(parallelism=3), "c" * 64)
    waits = ask(after, Update(after, version_from(after, SECOND, third), 60), 200)
    assert not goes_back(waits)
    assert version_of(ask(waits, Rollback(0), 201)) == version_of(after)
    assert not goes_back(submitted(FIRST))


def test_an_update_of_a_topology_that_began_with_a_savepoint_does_not_begin_with_it_again() -> None:
    first = submission(words(), topology_state_savepoint="words-7-1")
    assert conf_of(version_from(submitted(first), first, SECOND))["topology.state.savepoint"] == "words-7-1"
    assert conf_of(version_from(submitted(FIRST), FIRST, SECOND))["topology.state.savepoint"] is None
    with pytest.raises(UsageError, match=r"has topology\.state\.savepoint null, and an update cannot make it"):
        version = version_from(submitted(FIRST), FIRST, SECOND)
        version.conf_json = config.encode_conf({**conf_of(version), "topology.state.savepoint": "words-7-1"})
        check_update(submitted(FIRST), FIRST.spec, version, SECOND.spec, config.defaults())


def transfers(transactional_id: str) -> rpc.SubmitHeader:
    builder = TransactionalTopologyBuilder(transactional_id, "words", MemoryTransactionalSpout([[["a"]]], ["word"], 1))
    builder.set_bolt("print", Print()).shuffle_grouping("words")
    return submission(builder.create_topology())


def test_a_transactional_topology_goes_on_under_its_id() -> None:
    first = transfers("pay")
    record = submitted(first)
    assert version_from(record, first, first).number == 1
    with pytest.raises(UsageError, match=r"of 'pay' stores, which a .* of 'pay2' cannot read"):
        version_from(record, first, transfers("pay2"))


def test_a_refusal_shows_no_secret() -> None:
    first, second = (
        submission(words(), **{**REDIS, "topology.state.provider.config": {"url": f"redis://:hidden@{host}/0"}})
        for host in ("old", "new")
    )
    with pytest.raises(UsageError, match=r"redis://:\*+@old/0.* cannot make it .*redis://:\*+@new/0"):
        version_from(submitted(first), first, second)


def test_versions_that_do_not_fit_into_the_record_together_are_refused() -> None:
    headers = [submission(words(), sha256 * 64, **{OWN: sha256 * 150_000}) for sha256 in "abc"]
    record = submitted(headers[0])
    record = updated(record, version_from(record, headers[0], headers[1]), 0.0)
    with pytest.raises(UsageError, match="would take more than 600000 bytes in ZooKeeper"):
        version_from(record, headers[1], headers[2])


def test_the_way_back_fits_into_zookeeper_whatever_is_accepted() -> None:
    first, second = (submission(words(), sha256 * 64, **{OWN: '"' * 20_000}) for sha256 in "ab")
    record = submitted(first)
    trial = rebalanced(ask(record, Update(record, version_from(record, first, second), 0), 100), 100)
    assert len(encode(failed_update(trial, 101))) <= MAX_RECORD_BYTES
    with pytest.raises(UsageError, match="would take more than 600000 bytes in ZooKeeper"):
        version_from(record, first, submission(words(), "b" * 64, **{OWN: '"' * 120_000}))


def test_a_single_task_may_be_grouped_by_other_fields() -> None:
    first = submission(words(parallelism=1))
    record = submitted(first)
    assert version_from(record, first, submission(words(parallelism=1, fields=("user",)))).number == 1
    for before, after in ((2, 1), (1, 2)):
        first = submission(words(parallelism=before))
        with pytest.raises(UsageError, match="entries would be looked for in other tasks"):
            version_from(submitted(first), first, submission(words(parallelism=after, fields=("user",))))


def test_requests_during_an_update_are_refused_but_for_those_that_cannot_harm() -> None:
    record = submitted(FIRST)
    update = Update(record, version_from(record, FIRST, SECOND), 7)
    waits = ask(record, update, 100)
    for request in (Rebalance(0, 3, {}), SetConf('{"my.key": 3}', (), 0), update):
        with pytest.raises(UsageError, match="is being updated to version 1; try again later"):
            ask(waits, request, 101)
    assert ask(waits, Activate(), 101).pending.update == waits.pending.update
    assert ask(waits, Kill(0), 101).status == KILLED
    assert ask(waits, Rollback(0), 101) == record, "it is withdrawn"
    after = on_trial()
    after.trial_began_unix_s = 0.0
    with pytest.raises(UsageError, match="is being updated to version 0; try again later"):
        ask(ask(after, Rollback(5), 101), Rollback(5), 102)
    rebalancing = ask(record, Rebalance(5, 3, {}), 100)
    with pytest.raises(UsageError, match="is being rebalanced"):
        ask(rebalancing, update, 101)
    with pytest.raises(UsageError, match="is being rebalanced"):
        ask(ask(on_trial(), Rebalance(5, 3, {}), 101), Rollback(0), 102)
    with pytest.raises(UsageError, match="version 1 of topology 'wc' is still starting"):
        ask(on_trial(), Update(on_trial(), version_of(record), 0), 101)
    with pytest.raises(UsageError, match="has no earlier version to go back to"):
        ask(record, Rollback(0), 100)
    changed = ask(record, SetConf(json.dumps({PENDING: 5}), (), 0), 100)
    with pytest.raises(UsageError, match="was changed while the update was uploaded"):
        ask(changed, update, 101)


def test_every_worker_is_placed_anew_when_an_update_is_due() -> None:
    one = submitted(FIRST)
    one.id = "wc-1-1"
    state = settled(cluster(one))
    before = state.assignments[one.id].value
    waits = ask(one, Update(one, version_from(one, FIRST, SECOND), 0), state.now_unix_s)
    state = cluster(waits, assignments=state.assignments)
    [change] = [each for each in decide(state) if isinstance(each, Change)]
    assert change.record is not None and change.assignment is not None
    assert change.record.value.version == 1 and change.record.value.trial_began_unix_s == state.now_unix_s
    tasks = [run.first_task for worker in change.assignment.value.workers for run in worker.executors]
    assert min(tasks) > max(run.last_task for worker in before.workers for run in worker.executors)
    assert change.touched


def test_secrets_of_all_versions_are_masked() -> None:
    record = submitted(submission(words(), **{"db.password": "hidden1"}))
    first = submission(words(), **{"db.password": "hidden1"})
    second = submission(words(), "b" * 64, **{"db.password": "hidden2"})
    third = submission(words(), "c" * 64, **{"db.password": "hidden3"})
    one = rebalanced(ask(record, Update(record, version_from(record, first, second), 0), 100), 100)
    one.trial_began_unix_s = 0.0
    waits = ask(one, Update(one, version_from(one, second, third), 0), 200)
    for found in (waits, rebalanced(waits, 200)):
        assert "hidden" in str(found) and "hidden" not in str(shown(found, 0))


def test_an_update_and_what_operators_have_changed_are_not_too_large_together() -> None:
    record = submitted(FIRST)
    record.executors["count"] = record.tasks["count"] = 9_998
    header = submission(words(more=Print(), yet_more=Print()), "b" * 64, my_key=1)
    with pytest.raises(UsageError, match=r"topology 'wc' would have 1000. executors; the limit is 10000"):
        checked_update(record, FIRST.spec, header, config.defaults())
