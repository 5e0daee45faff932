"""From a topology's spec to executors: who may receive from whom, and what cannot be built."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic

from tupletree import Topology, TopologyBuilder, config
from tupletree.errors import TopologyError
from tupletree.parallelism import tasks_of
from tupletree.testing import FeederSpout
from tupletree.worker.builder import build_executors, origins
from tupletree.worker.core.task import Environment
from tupletree.worker.execution.executor import Executor
from tupletree.worker.execution.inbox import ACKERS, Gate
from tupletree.worker.plan import Plan


def plan_of(topology: Topology, local: set[int], conf: dict[str, Any] | None = None) -> Plan:
    """A plan of which only the tasks ``local`` run here."""
    merged = {**config.defaults(), **(conf or {})}
    spec = topology.spec()
    environment = Environment(
        clock=lambda: 0.0,
        getrandbits=random.Random(1).getrandbits,
        report_error=lambda *error: None,
        is_tracked=True,
        log_emit=lambda *emit: None,
    )
    return Plan("t", spec, merged, tasks_of(spec, merged), frozenset(local), environment, seed=1)


FEEDER = FeederSpout(["n"])  # lives as long as its copies may be made


def relay(grouping: str) -> Topology:
    """a-sink (tasks 1 to 4) <- relay (5) <- spout (6)"""
    builder = TopologyBuilder()
    builder.set_spout("spout", FEEDER)
    builder.set_bolt("relay", DoBasic(outputs=["n"])).shuffle_grouping("spout")
    getattr(builder.set_bolt("a-sink", Do(), 4), grouping)("relay")
    return builder.create_topology()


def relay_by_fields() -> Topology:
    """The same with a fields grouping."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FEEDER)
    builder.set_bolt("relay", DoBasic(outputs=["n"])).shuffle_grouping("spout")
    builder.set_bolt("a-sink", Do(), 4).fields_grouping("relay", ["n"])
    return builder.create_topology()


def receivers(executor: Executor) -> set[int]:
    [task] = executor.tasks
    choose = task.streams["default"].choose_one
    assert choose is not None
    return {choose([number]).task for number in range(20)}


@pytest.mark.parametrize(
    ("local", "expected"),
    [({5, 2, 3}, {2, 3}), ({5, 4}, {4}), ({5}, {1, 2, 3, 4}), ({1, 2, 3, 4, 5, 6}, {1, 2, 3, 4})],
)
def test_local_or_shuffle_prefers_the_tasks_of_its_own_worker(local: set[int], expected: set[int]) -> None:
    plan = plan_of(relay("local_or_shuffle_grouping"), local)
    assert receivers(build_executors(plan, [(5, 5)], Gate(lambda: None), lambda *batch: None)[0]) == expected


@pytest.mark.parametrize("grouping", ["shuffle_grouping", "none_grouping"])
def test_shuffle_and_none_reach_tasks_of_every_worker(grouping: str) -> None:
    plan = plan_of(relay(grouping), {5, 1})
    assert receivers(build_executors(plan, [(5, 5)], Gate(lambda: None), lambda *batch: None)[0]) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("grouping", "local", "closed", "is_held"),
    [
        ("shuffle_grouping", {5, 2, 3}, {1, 2, 3}, False),
        ("shuffle_grouping", {5, 2, 3}, {1, 2, 3, 4}, True),
        ("local_or_shuffle_grouping", {5, 2, 3}, {1, 2, 4}, False),
        ("local_or_shuffle_grouping", {5, 2, 3}, {2, 3}, True),
        ("local_or_shuffle_grouping", {5, 4}, {1, 2, 3}, False),
        ("local_or_shuffle_grouping", {5, 4}, {4}, True),
        ("local_or_shuffle_grouping", {5}, {1, 2, 3}, False),
        ("fields_grouping", {5, 2, 3}, {1}, True),
    ],
)
@pytest.mark.parametrize("is_aware", [True, False])
def test_only_if_all_tasks_that_a_shuffle_chooses_among_are_congested_does_the_sender_wait(
    grouping: str, local: set[int], closed: set[int], is_held: bool, is_aware: bool
) -> None:
    topology = relay(grouping) if grouping != "fields_grouping" else relay_by_fields()
    gate = Gate(lambda: None)
    plan = plan_of(topology, local, {"topology.disable.loadaware.messaging": not is_aware})
    [executor] = build_executors(plan, [(5, 5)], gate, lambda *batch: None)
    gate.set("test", closed)
    assert executor.is_held is (is_held or not is_aware)


def test_origins_name_every_stream_of_every_task() -> None:
    found = origins(plan_of(relay("shuffle_grouping"), set()))
    assert sorted(found) == [(5, "default"), (6, "default")]
    assert (found[(6, "default")].component, found[(6, "default")].fields) == ("spout", ("n",))


def test_a_spout_that_is_tracked_waits_for_the_ackers_as_for_a_task() -> None:
    plan = plan_of(relay("shuffle_grouping"), {6})
    gate = Gate(lambda: None)
    spout = build_executors(plan, [(6, 6)], gate, lambda *batch: None)[0]
    bolt = build_executors(plan, [(5, 5)], gate, lambda *batch: None)[0]
    gate.set("test", [ACKERS])
    assert (spout.is_held, bolt.is_held) == (True, False)


@pytest.mark.parametrize("how", ["on the component", "in its configuration", "not at all"])
def test_blocking_is_declared_on_the_component_or_in_its_configuration(how: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    bolt = Do()
    bolt.blocking = how == "on the component"
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout").set_blocking(how == "in its configuration")
    hand = HandDriven(builder.create_topology())
    assert hand.executor("bolt").is_blocking is (how != "not at all")


def test_a_component_that_cannot_be_unpickled_is_named() -> None:
    plan = plan_of(relay("shuffle_grouping"), {5})
    component = next(component for component in plan.spec.components if component.id == "relay")
    component.object = b"no pickle"
    with pytest.raises(TopologyError, match="component 'relay' cannot be loaded in the worker: ") as caught:
        build_executors(plan, [(5, 5)], Gate(lambda: None), lambda *batch: None)[0]
    assert caught.value.component == "relay"


def test_a_task_that_the_topology_does_not_have_is_refused() -> None:
    with pytest.raises(TopologyError, match="has no task 99"):
        build_executors(plan_of(relay("shuffle_grouping"), {99}), [(99, 99)], Gate(lambda: None), lambda *batch: None)


def test_an_executor_of_several_tasks_gives_each_its_own_component_and_streams() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("relay", DoBasic(outputs=["n"])).shuffle_grouping("spout").set_num_tasks(3)
    builder.set_bolt("thesink", Do()).shuffle_grouping("relay")
    hand = HandDriven(builder.create_topology())
    tasks = hand.executor("relay").tasks
    assert [task.task_id for task in tasks] == hand.tasks["relay"] == [1, 2, 3]
    assert len({id(task.bolt) for task in tasks}) == 3  # type: ignore[attr-defined]
    assert {task.streams["default"].origin.task for task in tasks} == {1, 2, 3}
    assert [task.context.task_index for task in tasks] == [0, 1, 2]
