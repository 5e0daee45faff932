"""Which components may get another number of tasks, by the outline of a topology."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tupletree import BasicBolt, Spout, StatefulBolt, Topology, TopologyBuilder
from tupletree.connectors.files import FileSpout
from tupletree.errors import UsageError
from tupletree.nimbus.leader.task_changes import check_task_change
from tupletree.testing import FeederSpout
from tupletree.v1 import topology_pb2 as pb

SQLITE = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": "/states"}}


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


class Known(Count):
    is_divisible = True


class Whole(Count):
    is_divisible = False


class Print(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None: ...


class Counter(Spout):
    outputs = ("word",)

    def next_tuple(self) -> None: ...

    def checkpoint_state(self) -> Any: ...

    def restore_state(self, state: Any) -> None: ...


def builder() -> TopologyBuilder:
    made = TopologyBuilder()
    made.set_spout("words", FeederSpout(["word"]))
    made.set_spout("lines", FileSpout("/var/log/app"))
    made.set_spout("counter", Counter())
    made.set_bolt("count", Count(), 2).fields_grouping("words", ["word"]).all_grouping("lines")
    made.set_bolt("shuffled", Count()).fields_grouping("words", ["word"]).shuffle_grouping("lines")
    made.set_bolt("whole", Whole()).fields_grouping("words", ["word"])
    made.set_bolt("single", Count()).fields_grouping("words", ["word"])
    made.set_bolt("known", Known()).fields_grouping("words", ["word"])
    made.set_bolt("print", Print()).shuffle_grouping("counter")
    return made


def change(
    component: str, conf: dict[str, Any], topology: Topology | None = None, cluster_conf: dict[str, Any] | None = None
) -> None:
    spec = (topology or builder().create_topology()).spec()
    record = pb.TopologyRecord(
        name="wc", conf_json=json.dumps(conf), tasks={one.id: one.tasks for one in spec.components}
    )
    check_task_change(record, spec, [component], cluster_conf or {})


@pytest.mark.parametrize("component", ["count", "print", "words", "lines", "known"])
def test_what_can_be_divided_may_change(component: str) -> None:
    change(component, SQLITE)


def test_a_state_provider_of_the_whole_cluster_counts_unless_the_topology_names_one() -> None:
    change("count", {}, cluster_conf=SQLITE)
    with pytest.raises(UsageError, match="keeps its state in the memory"):
        change("count", {"topology.state.provider": "memory"}, cluster_conf=SQLITE)


@pytest.mark.parametrize(
    ("component", "conf", "sentence"),
    [
        ("count", {}, "component 'count' keeps its state in the memory of its workers"),
        (
            "count",
            {"topology.state.provider": "memory"},
            'such as sqlite with topology.state.provider.config {"directory": "/var/lib/states"}',
        ),
        (
            "shuffled",
            SQLITE,
            "component 'shuffled' keeps a state and receives 'lines' by shuffle grouping: only a fields",
        ),
        (
            "whole",
            SQLITE,
            "component 'whole' has a fixed number of tasks, as the states of its tasks cannot be divided",
        ),
        (
            "counter",
            SQLITE,
            "as the positions of its tasks cannot be divided among others: a spout with merge_states can",
        ),
        ("$checkpointspout", SQLITE, "component '$checkpointspout' is part of Tupletree"),
        (
            "cuont",
            SQLITE,
            "topology 'wc' has no component 'cuont'; it has count, counter, known, lines, print, shuffled, single, "
            "whole",
        ),
        (
            "single",
            SQLITE,
            "component 'single' has one task, which does not show whether the keys of its state are those",
        ),
    ],
)
def test_what_cannot_is_refused_in_a_sentence(component: str, conf: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        change(component, conf)
    assert sentence in str(raised.value)
