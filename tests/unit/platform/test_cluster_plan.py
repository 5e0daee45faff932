"""Who listens where in a cluster on one machine."""

from __future__ import annotations

import pytest

from tupletree._devcluster.plan import Size, plan_with_fixed_ports, plan_with_ports
from tupletree.config import defaults, validate
from tupletree.errors import UsageError


def test_every_port_given_is_used_once() -> None:
    size = Size(supervisors=2, slots=3, ackers=2, nimbuses=2)
    ports = list(range(20_000, 20_000 + size.ports))
    plan = plan_with_ports("/c", size, ports, {})
    assert sorted(port for port, _, _ in plan.listeners()) == ports
    assert [daemon.name for daemon in plan.daemons] == [
        "nimbus-0",
        "nimbus-1",
        "supervisor-0",
        "supervisor-1",
        "acker-0",
        "acker-1",
    ]


def test_daemons_share_the_cluster_and_nothing_else() -> None:
    size = Size(supervisors=2, ackers=2)
    conf = {"topology.workers": 3, "supervisor.id": "one"}
    plan = plan_with_ports("/c", size, list(range(20_000, 20_000 + size.ports)), conf)
    for daemon in plan.daemons:
        validate(daemon.conf)
        assert daemon.conf["zookeeper.servers"] == ["127.0.0.1"]
        assert daemon.conf["zookeeper.port"] == plan.zookeeper_port
        assert daemon.conf["nimbus.seeds"] == [f"127.0.0.1:{plan.daemons[0].grpc_port}"]
        assert daemon.conf["topology.workers"] == 3
    assert len({daemon.conf["local.dir"] for daemon in plan.daemons}) == len(plan.daemons)
    supervisors = [daemon for daemon in plan.daemons if daemon.role == "supervisor"]
    assert [daemon.conf.get("supervisor.id") for daemon in supervisors] == ["one", None]
    assert supervisors[1].conf["supervisor.slots.ports"] == list(supervisors[1].slots)


def test_fixed_ports_are_storms_for_the_first_of_each_role() -> None:
    plan = plan_with_fixed_ports("/c", Size(supervisors=2, slots=2, ackers=2), defaults(), {})
    assert plan.zookeeper_port == 2181
    assert [(daemon.name, daemon.grpc_port, daemon.http_port, daemon.slots) for daemon in plan.daemons] == [
        ("nimbus-0", 6627, 8080, ()),
        ("supervisor-0", 6628, 8001, (6700, 6701)),
        ("supervisor-1", 6728, 8101, (6800, 6801)),
        ("acker-0", 6640, 6641, ()),
        ("acker-1", 6740, 6741, ()),
    ]


def test_a_port_needed_twice_is_one_sentence() -> None:
    sentence = "port 6740 is needed by a worker of supervisor-0 and by acker-1"
    with pytest.raises(UsageError, match=sentence):
        plan_with_fixed_ports("/c", Size(slots=60, ackers=2), defaults(), {})


def test_a_size_that_cannot_be_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^nimbuses is 0, expected at least 1$"):
        Size(nimbuses=0)
