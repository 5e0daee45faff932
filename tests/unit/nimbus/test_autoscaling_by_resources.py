"""Autoscaling under the resource scheduler: nothing is asked for that has no room, as the spouts would wait for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_snapshots import NOW, settled
from test_resource_placing import machine, scene, topology

from tupletree.nimbus.autoscaler import Autoscaler
from tupletree.nimbus.cluster_view import ClusterView
from tupletree.nimbus.leader.autoscale_settings import Settings
from tupletree.nimbus.leader.autoscaling import Change, Outlook
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState
from tupletree.nimbus.leader.lifecycle import Autoscale
from tupletree.nimbus.leader.scheduling import Scheduling
from tupletree.v1 import topology_pb2 as pb

CHANGE = Change("split", 3, 6, 1, 1, "it was busy")


@pytest.mark.parametrize(
    ("memory", "is_resource", "asks"), [(2000, True, False), (4000, True, True), (2000, False, True)]
)
def test_a_change_is_asked_for_if_there_is_room(
    monkeypatch: pytest.MonkeyPatch, memory: float, is_resource: bool, asks: bool
) -> None:
    wanted, low = topology("a", tasks=3), topology("low", tasks=1, priority=30)
    wanted.tasks["split"] = 6
    done = settled(scene(wanted, low, machines=[machine("x", memory=memory)]))
    asked: list[Any] = []

    async def change(name: str, request: Any) -> None:
        asked.append(request)

    async def outline(record: pb.TopologyRecord) -> pb.TopologySpec:
        return pb.TopologySpec(components=[pb.ComponentSpec(id="split")])

    state = ClusterState(done.records, done.assignments, done.supervisors, {}, {}, {}, {})
    leader_state = LeaderState(1, 30, 120, 0.0, Scheduling(by_resources=is_resource))
    view = ClusterView(state, {}, "n1", 1, {}, {}, leader_state, "1", 0.0, NOW)
    api = SimpleNamespace(change=change, outline=outline)
    metrics = SimpleNamespace(autoscale_changes=SimpleNamespace(labels=lambda _: SimpleNamespace(inc=lambda: None)))
    found = Outlook((), 1, 1, CHANGE, CHANGE.sentence)
    monkeypatch.setattr("tupletree.nimbus.autoscaler.outlook", lambda *_: found)
    scaler = Autoscaler(cast(Any, api), cast(Any, metrics))
    reconciler = cast(Any, SimpleNamespace(are_ready=lambda *_: True))
    record = done.records["a-1-1"].value
    asyncio.run(scaler._judge(reconciler, view, record, Settings({})))
    assert [type(one) for one in asked] == [Autoscale] * asks
    outlook = leader_state.outlooks["a-1-1"]
    assert ("the supervisors lack 1,500 MB of memory" in outlook.held) != asks
