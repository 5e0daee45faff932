"""The settings of autoscaling, the load that reports amount to, and the requests that nimbus makes of itself."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tupletree.config import validate
from tupletree.errors import ConfigError, UsageError
from tupletree.nimbus.autoscale_replies import message_of
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.autoscale_settings import Bounds, Settings, check_autoscale, settings_of
from tupletree.nimbus.leader.autoscaling import Change, outlook
from tupletree.nimbus.leader.isolation import Isolation, Owner
from tupletree.nimbus.leader.load_history import Load, LoadHistory, Moment, Reading, Thread, growing_lag, moment
from tupletree.nimbus.leader.load_reading import (
    FreeSlots,
    apart,
    blocking_components,
    facts,
    free_slots_of,
    layout,
    promised_slots,
    reading,
)
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

CONF = {"topology.autoscale": {"count": {"min": 1, "max": 4}}, "topology.workers": 2}
SPEC = pb.TopologySpec(
    components=[
        pb.ComponentSpec(
            id="count",
            kind=pb.COMPONENT_KIND_BOLT,
            inputs=[pb.InputSpec(source="lines", stream="default"), pb.InputSpec(source="$spout", stream="$steps")],
        ),
        pb.ComponentSpec(id="lines", kind=pb.COMPONENT_KIND_SPOUT),
    ]
)
CHANGE = message_of(Change("count", 2, 4, 2, 3, "it was busy"))


def record(status: pb.TopologyStatus = lifecycle.ACTIVE, **changes: Any) -> pb.TopologyRecord:
    fields: dict[str, Any] = {
        "workers": 2,
        "tasks": {"count": 4, "lines": 1},
        "executors": {"count": 2, "lines": 1},
        "conf_json": json.dumps(CONF),
        **changes,
    }
    return pb.TopologyRecord(id="wc-1-1", name="wc", status=status, **fields)


def check(conf: dict[str, Any], spec: pb.TopologySpec = SPEC, workers: int = 2) -> None:
    check_autoscale(conf, {"count": 2, "lines": 1}, {"count": 4, "lines": 1}, workers, spec)


def bounds(**given: Any) -> dict[str, Any]:
    return {"topology.autoscale": given}


def test_settings_are_read_from_the_configuration() -> None:
    assert settings_of(json.dumps(CONF)) == Settings({"count": Bounds(1, 4)}, None, 2)
    times = {
        "topology.autoscale.up.secs": 30,
        "topology.autoscale.down.secs": 20,
        "topology.autoscale.cooldown.secs": 9,
    }
    found = settings_of(json.dumps({**CONF, **times, "topology.autoscale.max.workers": 5}))
    assert found == Settings({"count": Bounds(1, 4)}, 5, 2, 30.0, 30.0, 9.0)


@pytest.mark.parametrize(
    "conf_json", ["", "{}", "[", "[]", '{"topology.autoscale": {}}', '{"topology.autoscale": {"a": 1}}']
)
def test_without_readable_bounds_nothing_is_scaled(conf_json: str) -> None:
    assert settings_of(conf_json) is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"count": 5}, r"'count' takes \{min: 2, max: 8\}, two whole numbers of at least 1, not 5"),
        ({"count": {"min": 1}}, r"takes \{min: 2, max: 8\}"),
        ({"count": {"min": 0, "max": 2}}, r"takes \{min: 2, max: 8\}"),
        ({"count": {"min": True, "max": 2}}, r"takes \{min: 2, max: 8\}"),
        ({"count": {"min": 1, "max": 2, "mid": 1}}, r"takes \{min: 2, max: 8\}"),
        ({"count": {"min": 3, "max": 2}}, r"has min 3, which is more than its max 2: exchange them"),
        ([1], r"takes a mapping"),
    ],
)
def test_malformed_bounds_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        validate({"topology.autoscale": given})


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        (bounds(cuont={"min": 1, "max": 2}), r"names 'cuont', which is no bolt of the topology: it has count"),
        (bounds(lines={"min": 1, "max": 1}), r"names the spout 'lines', but it is for bolts"),
        (bounds(count={"min": 1, "max": 5}), r"which has 4 tasks, .* give it 5 tasks \(topology.tasks\)"),
        (bounds(count={"min": 3, "max": 4}), r"has 2 executors, which is not within .*, 3 to 4: begin with a number"),
        ({**CONF, "topology.autoscale.max.workers": 1}, r"has 2 workers, more than .*, which is 1: raise that"),
    ],
)
def test_what_a_topology_cannot_do_is_refused(conf: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check(conf)


def test_states_in_memory_are_refused_as_each_change_would_lose_them() -> None:
    check(CONF)
    check({})
    spec = pb.TopologySpec()
    spec.CopyFrom(SPEC)
    spec.components[0].keeps_state = True
    with pytest.raises(ConfigError, match=r"'count' keeps its state in the memory of its workers, .* {\"directory\": "):
        check(CONF, spec)
    check({**CONF, "topology.state.provider": "sqlite"}, spec)
    check({}, spec)


def test_a_change_waits_as_a_rebalance_and_is_kept_once_carried_out() -> None:
    asked = lifecycle.ask(record(), lifecycle.Autoscale(record(), CHANGE), 100.0)
    assert (asked.status, asked.pending.resume, asked.pending.workers) == (lifecycle.REBALANCING, lifecycle.ACTIVE, 3)
    assert dict(asked.pending.executors) == {"count": 4}
    after = lifecycle.rebalanced(asked)
    assert (after.executors["count"], after.workers, after.status) == (4, 3, lifecycle.ACTIVE)
    assert (after.autoscaled.at_unix_s, after.autoscaled.reason) == (100.0, "it was busy")
    assert (
        lifecycle.rebalanced(lifecycle.ask(after, lifecycle.Rebalance(0, 1, {}), 200.0)).autoscaled == after.autoscaled
    )


def test_workers_alone_can_change() -> None:
    change = message_of(Change("", 0, 0, 2, 1, "it was idle"))
    after = lifecycle.rebalanced(lifecycle.ask(record(), lifecycle.Autoscale(record(), change), 100.0))
    assert (after.workers, dict(after.executors)) == (1, {"count": 2, "lines": 1})


@pytest.mark.parametrize("request_", [lifecycle.Rebalance(0, 0, {"count": 3}), lifecycle.Kill(5.0)])
def test_a_request_of_a_user_takes_the_place_of_a_change_that_waits(request_: lifecycle.Request) -> None:
    asked = lifecycle.ask(record(), lifecycle.Autoscale(record(), CHANGE), 100.0)
    instead = lifecycle.ask(asked, request_, 101.0)
    assert not instead.pending.HasField("autoscaled")
    assert not lifecycle.rebalanced(instead).HasField("autoscaled")


TRIAL = {"trial_began_unix_s": 5.0}
UPDATE = {"pending": pb.PendingAction(update=pb.TopologyVersion(number=1))}


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (record(lifecycle.INACTIVE), "its spouts are deactivated"),
        (record(lifecycle.KILLED), "it is being killed"),
        (record(lifecycle.REBALANCING), "it is being rebalanced"),
        (record(lifecycle.REBALANCING, **UPDATE), "it is being updated"),
        (record(**TRIAL), "its update is on trial"),
    ],
)
def test_what_is_under_way_suspends_changes(now: pb.TopologyRecord, reason: str) -> None:
    assert lifecycle.suspension(now) == reason
    with pytest.raises(UsageError):
        lifecycle.ask(now, lifecycle.Autoscale(now, CHANGE), 100.0)


@pytest.mark.parametrize(
    "now",
    [record(workers=3), record(executors={"count": 3, "lines": 1}), record(conf_json="{}"), record(first_task=9)],
)
def test_a_topology_that_has_changed_since_is_not_scaled(now: pb.TopologyRecord) -> None:
    with pytest.raises(UsageError, match=r"'wc' has changed since its load was judged; nothing is scaled"):
        lifecycle.ask(now, lifecycle.Autoscale(record(), CHANGE), 100.0)


def test_facts_of_a_record() -> None:
    scaled = record(autoscaled=pb.AutoscaleChange(at_unix_s=40.0))
    found = facts(scaled, SPEC, frozenset({"count"}), 2, FreeSlots(1), 100.0, "")
    assert (found.since_change_s, found.obstacle, found.consumers) == (60.0, "", {"lines": {"count"}})
    assert facts(record(), SPEC, frozenset(), 2, FreeSlots(1), 100.0, "").since_change_s == math.inf
    assert facts(record(), SPEC, frozenset(), 2, FreeSlots(1), 100.0, "not ready").obstacle == "not ready"


def test_slots_that_rebalances_under_way_will_take_are_not_free() -> None:
    waiting = record(lifecycle.REBALANCING, pending=pb.PendingAction(workers=5))
    assignment = pb.Assignment(workers=[pb.WorkerAssignment(port=1), pb.WorkerAssignment(port=2)])
    assert promised_slots([waiting, record()], {"wc-1-1": assignment}) == 3
    assert promised_slots([waiting], {}) == 5


def test_slots_are_counted_on_the_machines_that_a_topology_may_use() -> None:
    free = [Slot(machine, port) for machine in ("m0", "m1", "m2") for port in (1, 2, 3)]
    own, pool = Owner(topology="own-1-1"), Owner(pool="ann")
    isolation = Isolation({"m0": own, "m1": pool}, {"own-1-1": own, "a-1-1": pool, "b-1-1": pool}, pools={"ann": 2})
    rebalanced = record(lifecycle.REBALANCING, pending=pb.PendingAction(workers=2))
    rebalanced.id = "b-1-1"
    found = {one: free_slots_of(one, free, isolation, [rebalanced], {}, ()) for one in ("own-1-1", "a-1-1", "wc-1-1")}
    assert [one.number for one in found.values()] == [3, 1, 3]
    assert found["own-1-1"].no_slot == "no slot is free on the machines of its own (isolation.scheduler.machines)"
    assert found["a-1-1"].no_slot.endswith("its owner's pool, which has 1 of 2 (multitenant.scheduler.user.pools)")
    assert free_slots_of("wc-1-1", free, Isolation(), [rebalanced], {}, ()) == FreeSlots(7, "no slot is free")
    avoided = {"m0", "m1"}
    of_the_rest = free_slots_of("wc-1-1", free, Isolation(), [rebalanced], {}, avoided).number
    assert of_the_rest == sum(slot.supervisor_id not in avoided for slot in free) - 2


def report(
    worker: str, port: int, tasks: list[rpc.TaskStats], statuses: dict[int, str] | None = None
) -> rpc.WorkerReport:
    return rpc.WorkerReport(topology_id="wc-1-1", worker_id=worker, supervisor_id="s", port=port, tasks=tasks)


def test_a_reading_knows_the_thread_of_each_task() -> None:
    assignment = pb.Assignment(version=3)
    first = assignment.workers.add(supervisor_id="s", port=1)
    first.executors.extend([pb.ExecutorRange(first_task=1, last_task=2), pb.ExecutorRange(first_task=5, last_task=5)])
    assignment.workers.add(supervisor_id="s", port=2).executors.add(first_task=3, last_task=4)
    statistics = TopologyStatistics()
    tasks = [rpc.TaskStats(task_id=id, component_id="count", execute_s=id) for id in (1, 2)]
    spout = rpc.TaskStats(task_id=5, component_id="lines", execute_s=5)
    lag = json.dumps({"kind": "log", "lag": 70})
    statistics.report(report("a", 1, [*tasks, spout]), 10.0, {5: lag})
    blocked = [
        rpc.TaskStats(task_id=3, component_id="count", execute_s=3, found_blocking=True),
        rpc.TaskStats(task_id=4, component_id="count", execute_s=4, congested=True),
    ]
    statistics.report(report("b", 2, blocked), 10.0)
    found = reading(statistics, record(), assignment, frozenset(), 10.0)
    shared, own = Thread(("s", 1), True), Thread(3, False)
    assert found.threads == {1: shared, 2: shared, 5: shared, 3: own, 4: own}
    assert (found.busy_s, found.congested, found.lags) == (
        {1: 1, 2: 2, 3: 3, 4: 4, 5: 5},
        frozenset({"count"}),
        {"lines": 70},
    )
    assert apart(found, {"count": [1, 2, 3, 4], "lines": [5]}) == {"count"}
    declared = reading(statistics, record(), assignment, frozenset({"count"}), 10.0)
    assert declared.threads[1] == declared.threads[2] == Thread(1, False)
    assert layout(record(), assignment) != layout(record(workers=3), assignment)


def test_components_are_blocking_by_class_or_by_configuration() -> None:
    spec = pb.TopologySpec(
        components=[
            pb.ComponentSpec(id="a", is_blocking=True),
            pb.ComponentSpec(id="b", conf_json='{"topology.blocking": true}'),
            pb.ComponentSpec(id="c"),
        ]
    )
    assert blocking_components(record(), spec) == {"a", "b"}
    assert blocking_components(record(conf_json='{"topology.blocking": true}'), spec) == {"a", "b", "c"}


SHARED, OWN = Thread("w", True), Thread(3, False)
THREADS = {1: SHARED, 2: SHARED, 3: OWN}
TASKS = {"count": [1, 3], "lines": [2]}


def counters(at_s: float, *busy_s: float, lag: int = 0, congested: tuple[str, ...] = ()) -> Reading:
    return Reading(at_s, dict(enumerate(busy_s, 1)), THREADS, frozenset(congested), {"lines": lag})


def test_the_load_between_two_readings() -> None:
    found = moment(counters(10, 0, 0, 0), counters(20, 4, 5, 2, congested=("count",)), TASKS)
    assert found is not None
    assert found.loads["count"] == pytest.approx(Load(0.6, 0.9, 0.4, 0.5, 1.0))
    assert found.loads["lines"] == pytest.approx(Load(0.5, 0.9, 0.5, 0.4, 0.0))
    assert found.shared == pytest.approx(0.9)


def test_the_history_begins_anew_with_another_layout_and_after_the_restart_of_a_worker() -> None:
    history = LoadHistory()
    for at_s in range(0, 20, 2):
        history.add(counters(at_s, at_s, 0, 0), TASKS, "here", 10.0)
    assert [one.at_s for one in history.moments] == [10, 12, 14, 16, 18]
    history.add(counters(18.5, 18.5, 0, 0), TASKS, "here", 10.0)
    assert history.moments[-1].at_s == 18
    history.add(counters(20, 0.5, 0, 0), TASKS, "here", 10.0)
    assert history.moments == ()
    history.add(counters(22, 1, 0, 0), TASKS, "here", 10.0)
    assert len(history.moments) == 1
    history.add(counters(24, 2, 0, 0), TASKS, "there", 10.0)
    assert history.moments == ()
    history.add(Reading(26, {}, {}), TASKS, "there", 10.0)  # not all tasks have reported
    assert history.moments == ()


def test_a_lag_grows_if_it_is_larger_in_each_quarter() -> None:
    def of(*lags: int) -> int | None:
        return growing_lag([Moment(at_s, 1.0, {}, lags={"lines": lag}) for at_s, lag in enumerate(lags)])

    assert of(0, 200, 400, 600) == 600
    assert of(0, 20, 40, 60) is None
    assert of(0, 5000, 4000, 6000) is None
    assert of(100_000, 100_100, 100_200, 100_300) is None
    assert of(1, 2, 3) is None


def test_executors_for_congestion_are_not_taken_back_as_no_thread_is_busy() -> None:
    """An async bolt waits elsewhere: below three executors it is full, and its threads are idle all the time."""
    settings = Settings({"call": Bounds(1, 8)}, 8, 1)
    record = pb.TopologyRecord(workers=1, tasks={"call": 8}, executors={"call": 1})
    counts = []
    for _ in range(6):
        known = facts(record, pb.TopologySpec(), frozenset(), record.workers, FreeSlots(20), 1e9, "")
        count = record.executors["call"]
        load = Load(0.02, 0.02 / count, 0.02 / count, 0.0, float(count < 3))
        change = outlook(settings, known, [Moment(float(at), 1.0, {"call": load}, 0.02) for at in range(1, 601)]).change
        if change is None:
            break
        record.executors["call"], record.workers = change.executors, change.workers
        record.autoscaled.CopyFrom(message_of(change))
        counts.append(change.executors)
    assert counts == [2, 3]
