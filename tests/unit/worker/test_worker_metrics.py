"""What a worker shows of its tasks: which labels there are, how many, and for how long spouts were held back."""

from __future__ import annotations

from typing import Any

import pytest
from hand_driven import HandDriven
from local_components import Do, DoBasic
from prometheus_client.parser import text_string_to_metric_families

from tupletree import TopologyBuilder
from tupletree._wire.latency import BOUNDS_S
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.worker.execution.inbox import ACKERS
from tupletree.worker.execution.spout_executor import SpoutExecutor


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_labels_are_those_of_the_topology_whatever_is_emitted() -> None:
    spout = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("pass", DoBasic(lambda tup, out: out.emit([tup[0]]), ["n"]), 2).fields_grouping("spout", ["n"])
    builder.set_bolt("end", Do()).shuffle_grouping("pass").shuffle_grouping("spout")
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology())
        for number in range(500):
            spout.feed([f"value {number}"], number)
        cluster.wait_until(lambda: len(spout.acked) == 500)
        before = cluster.metrics("words")
        for number in range(500, 2000):
            spout.feed([f"value {number}"], number)
        cluster.wait_until(lambda: len(spout.acked) == 2000)
        found = families(cluster.metrics("words"))
    label_sets = {name: {tuple(s.labels.items()) for s in family.samples} for name, family in found.items()}
    assert label_sets == {
        name: {tuple(s.labels.items()) for s in family.samples} for name, family in families(before).items()
    }
    labels = {key for family in found.values() for sample in family.samples for key in sample.labels}
    assert labels == {"topology", "component", "task", "stream", "source", "cause", "le"}
    assert {s.labels["topology"] for family in found.values() for s in family.samples} == {"words"}
    assert {s.labels["task"] for family in found.values() for s in family.samples} == {"1", "2", "3", "4"}
    executed = {
        (s.labels["component"], s.labels["source"]): s.value
        for s in found["tupletree_worker_executed_tuples"].samples
        if s.labels["component"] == "end"
    }
    assert executed == {("end", "pass"): 2000.0, ("end", "spout"): 2000.0}
    acked = found["tupletree_worker_acked_trees"].samples
    assert [(s.labels["component"], s.labels["stream"], s.value) for s in acked] == [("spout", "default", 2000.0)]
    latency = found["tupletree_worker_complete_latency_seconds"].samples
    buckets = [s for s in latency if s.name.endswith("_bucket")]
    assert len(buckets) == len(BOUNDS_S) + 1
    assert buckets[-1].labels["le"] == "+Inf"
    assert buckets[-1].value == next(s.value for s in latency if s.name.endswith("_count")) == 100.0


@pytest.mark.parametrize(("closes", "cause"), [("sink", "congestion"), (ACKERS, "ackers")])
def test_the_time_for_which_an_active_spout_is_held_back_adds_up_by_cause(closes: Any, cause: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("sink", Do()).shuffle_grouping("spout")
    hand = HandDriven(builder.create_topology())
    executor = hand.executor("spout")
    assert isinstance(executor, SpoutExecutor)
    hand.step("spout")
    for now_s, closed in ((10.0, True), (13.0, True), (15.0, False), (40.0, False), (50.0, True), (50.5, False)):
        hand.now_s = now_s
        hand.gate.set("test", [hand.tasks["sink"][0] if closes == "sink" else closes] if closed else [])
        hand.step("spout")
    assert executor.held_s() == {"congestion": 0.0, "ackers": 0.0, cause: 5.5}
    hand.gate.set("test", [hand.tasks["sink"][0] if closes == "sink" else closes])
    hand.step("spout")
    hand.now_s += 2.0
    assert executor.held_s()[cause] == 7.5, "what goes on is counted up to now"
    executor.wants_active = False
    hand.step("spout")
    hand.now_s += 100.0
    hand.step("spout")
    assert executor.held_s()[cause] == 7.5, "one that is not active is not held back"
