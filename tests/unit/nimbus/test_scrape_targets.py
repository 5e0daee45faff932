"""What nimbus tells Prometheus to scrape."""

from __future__ import annotations

from typing import Any

from tupletree._coord.versioned import Versioned
from tupletree.nimbus.cluster_view import ClusterView
from tupletree.nimbus.leader.cluster_state import ClusterState
from tupletree.nimbus.leader.leader_state import LeaderState, Reported
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.prometheus_sd import FORGOTTEN_S, targets
from tupletree.v1.nimbus_pb2 import WorkerReport
from tupletree.v1.topology_pb2 import Presence, TopologyRecord

NOW_S = 1000.0


def presence(id: str, port: int, host: str = "10.0.0.1") -> dict[str, Presence]:
    return {id: Presence(id=id, host=host, http_port=port)}


def view(reports: list[tuple[WorkerReport, float]] = [], **changes: Any) -> ClusterView:  # noqa: B006
    state = ClusterState(
        records={"words-1-5": Versioned(TopologyRecord(id="words-1-5", name="words"), 0)},
        assignments={},
        supervisors=presence("s1", 8001),
        ackers=presence("a1", 6641, "fe80::1"),
        worker_presences={},
    )
    leader_state = LeaderState(1, 30.0, 120.0, 0.0)
    for report, at_s in reports:
        slot = Slot(f"{report.supervisor_id} of {report.worker_id}", report.port)
        leader_state.reports[report.topology_id, slot] = Reported(report, at_s)
    given = {
        "state": state, "nimbuses": presence("n1", 8080), "leader_id": "n1", "holders": 1, "ackers": {},
        "ledgers": {}, "leader_state": leader_state, "version": "1", "now_s": NOW_S, "now_unix_s": 0.0,
    }  # fmt: skip
    return ClusterView(**{**given, **changes})


def worker(**changes: Any) -> WorkerReport:
    given = {"topology_id": "words-1-5", "worker_id": "w1", "supervisor_id": "s1", "host": "10.0.0.2", "port": 6700}
    return WorkerReport(**{**given, "http_port": 41223, **changes})


def test_every_daemon_and_every_worker_is_named_with_what_it_is() -> None:
    assert targets(view([(worker(), NOW_S)])) == [
        {"targets": ["10.0.0.1:8080"], "labels": {"__meta_tupletree_role": "nimbus", "__meta_tupletree_id": "n1"}},
        {"targets": ["10.0.0.1:8001"], "labels": {"__meta_tupletree_role": "supervisor", "__meta_tupletree_id": "s1"}},
        {"targets": ["[fe80::1]:6641"], "labels": {"__meta_tupletree_role": "acker", "__meta_tupletree_id": "a1"}},
        {
            "targets": ["10.0.0.2:41223"],
            "labels": {
                "__meta_tupletree_role": "worker",
                "__meta_tupletree_id": "w1",
                "__meta_tupletree_topology": "words",
                "__meta_tupletree_topology_id": "words-1-5",
                "__meta_tupletree_slot": "s1:6700",
            },
        },
    ]


def test_workers_that_are_silent_or_of_a_topology_that_is_gone_or_without_a_port_are_left_out() -> None:
    reports = [
        (worker(worker_id="silent"), NOW_S - FORGOTTEN_S - 1),
        (worker(worker_id="gone", topology_id="other-1-1"), NOW_S),
        (worker(worker_id="portless", http_port=0), NOW_S),
    ]
    assert [one["labels"]["__meta_tupletree_role"] for one in targets(view(reports))] == [
        "nimbus",
        "supervisor",
        "acker",
    ]
