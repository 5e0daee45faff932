"""Keys of the configuration that a running worker adopts: what it takes, and what its executors and components see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from driven_spout import Numbers, driven, task_of
from hand_driven import HandDriven
from local_components import Do, Log

from tupletree import TopologyBuilder
from tupletree._wire.conf_changes import digest
from tupletree.testing import FeederSpout
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.assignment_view import view
from tupletree.worker.control_messages import ConfChanged
from tupletree.worker.execution.bolt_executor import BoltExecutor
from tupletree.worker.live_conf import LiveConf

PENDING = "topology.max.spout.pending"
TICKS = "topology.tick.tuple.freq.secs"
IDLE = "topology.sleep.spout.wait.strategy.time.ms"
FEEDER = FeederSpout(["n"])


def tell(hand: HandDriven, changes: Mapping[str, Any]) -> None:
    for executor in hand.executors:
        executor.inbox.put_news(ConfChanged(changes))


def test_only_what_is_new_is_a_change_and_what_is_gone_has_the_value_of_the_launch() -> None:
    launched = {PENDING: 5, TICKS: None, "my.key": 1}
    live = LiveConf(launched, {PENDING: 6})
    assert live.conf == {**launched, PENDING: 6} and launched[PENDING] == 5
    conf = live.conf
    assert live.apply({PENDING: 6}) == {}
    assert live.apply({PENDING: 7, TICKS: 2}) == {PENDING: 7, TICKS: 2}
    assert live.apply({TICKS: 2}) == {PENDING: 5}
    assert live.apply({}) == {TICKS: None}
    assert live.conf is conf and conf == launched


def test_keys_and_values_that_this_version_does_not_know_are_left_out() -> None:
    live = LiveConf({PENDING: 5}, {PENDING: "many", "topology.of.tomorrow": 1})
    assert live.conf == {PENDING: 5}
    assert live.apply({PENDING: -1, TICKS: [1]}) == {}


def test_a_spout_follows_the_limit_of_its_pending_trees_and_its_idle_wait() -> None:
    hand = driven(Numbers(Log()), {PENDING: 3})
    while hand.step("spout"):
        pass
    assert len(task_of(hand).pending) == 3
    tell(hand, {PENDING: 5, IDLE: 40})
    while hand.step("spout"):
        pass
    assert len(task_of(hand).pending) == 5
    assert task_of(hand).context.conf[PENDING] == 5
    assert hand.executor("spout").rest.length_s == 0.04
    tell(hand, {PENDING: 2})
    hand.step("spout")
    assert len(task_of(hand).pending) == 5 and task_of(hand).room == -3
    tell(hand, {PENDING: None})
    hand.step("spout")
    assert len(task_of(hand).pending) > 5


def ticking(**own: Any) -> HandDriven:
    builder = TopologyBuilder()
    builder.set_spout("spout", FEEDER)
    builder.set_bolt("bolt", Do(), 2).shuffle_grouping("spout").add_configurations(own)
    return HandDriven(builder.create_topology(), {TICKS: 10})


def test_a_bolt_follows_the_interval_of_its_ticks() -> None:
    hand = ticking()
    bolt = hand.executor("bolt")
    assert isinstance(bolt, BoltExecutor) and bolt.due_s() == 10
    hand.now_s = 4
    tell(hand, {TICKS: 2})
    hand.step("bolt")
    assert bolt.due_s() == 6
    tell(hand, {PENDING: 9})
    hand.now_s = 5
    hand.step("bolt")
    assert bolt.due_s() == 6, "another key does not put the next tick off"
    tell(hand, {TICKS: None})
    hand.step("bolt")
    assert bolt.due_s() == float("inf")


def test_what_a_component_sets_itself_stays() -> None:
    hand = ticking(**{TICKS: 3})
    tell(hand, {TICKS: 50, PENDING: 9})
    hand.step("bolt")
    assert hand.executor("bolt").due_s() == 3
    conf = hand.executor("bolt").tasks[0].context.conf
    assert (conf[TICKS], conf[PENDING]) == (3, 9)


def test_a_divided_executor_hands_changes_on_to_its_parts() -> None:
    hand = ticking()
    bolt = hand.executor("bolt")
    assert isinstance(bolt, BoltExecutor) and bolt.make is not None
    tell(hand, {TICKS: 2})
    hand.step("bolt")
    part = bolt.make(bolt.parts[0])
    assert part.due_s() == 2, "a part that is made later has what its component has adopted"


def test_a_worker_with_an_outdated_configuration_emits_nothing_until_it_is_restarted() -> None:
    conf = json.dumps({"a": 1, PENDING: None}, sort_keys=True, separators=(",", ":"))
    record = pb.TopologyRecord(id="t-1", status=pb.TOPOLOGY_STATUS_ACTIVE, conf_json=conf)
    assignment = pb.Assignment(topology_id="t-1", workers=[pb.WorkerAssignment(supervisor_id="s", port=1)])

    def seen(conf_digest: str) -> tuple[bool, Mapping[str, Any]]:
        found = view("s:1", record, assignment, {}, conf_digest)
        assert found is not None
        return found.is_active, found.live_conf

    assert seen(digest(conf)) == (True, {})
    record.conf_json = conf.replace("null", "7")
    record.submitted_conf[PENDING] = "null"
    record.live_keys.append(PENDING)
    assert seen(digest(conf)) == (True, {PENDING: 7}), "a live change leaves what the worker was started with"
    record.conf_json = record.conf_json.replace('"a":1', '"a":2')
    assert seen(digest(conf)) == (False, {PENDING: 7})
    assert seen("") == (True, {PENDING: 7}), "a launch file of an earlier version does not say"
    record.conf_json = "{"
    assert seen("")[1] == {}
