"""Who listens where in a cluster on one machine."""

from __future__ import annotations

import shutil

import pytest

from tupletree._devcluster.machines import of_their_own, run_ip
from tupletree._devcluster.plan import (
    Size,
    loopback_addresses,
    names_of,
    plan_on_machines,
    plan_with_fixed_ports,
    plan_with_ports,
)
from tupletree.config import defaults, validate
from tupletree.errors import UnavailableError, UsageError


def test_every_port_given_is_used_once() -> None:
    size = Size(supervisors=2, slots=3, ackers=2, nimbuses=2)
    ports = list(range(20_000, 20_000 + size.ports))
    plan = plan_with_ports("/c", size, ports, {})
    assert sorted(one.port for one in plan.listeners()) == ports
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


def test_drpc_servers_are_named_to_all() -> None:
    size = Size(drpc_servers=2)
    plan = plan_with_ports("/c", size, list(range(20_000, 20_000 + size.ports)), {"drpc.servers": ["elsewhere"]})
    assert len(list(plan.listeners())) == size.ports
    servers = [daemon for daemon in plan.daemons if daemon.role == "drpc"]
    assert [(one.name, one.module) for one in servers] == [(f"drpc-{n}", "tupletree.drpc_server") for n in (0, 1)]
    addresses = [f"127.0.0.1:{one.grpc_port}" for one in servers]
    assert {tuple(daemon.conf["drpc.servers"]) for daemon in plan.daemons} == {tuple(addresses)}
    fixed = plan_with_fixed_ports("/c", Size(drpc_servers=1), defaults(), {})
    assert (fixed.daemons[-1].grpc_port, fixed.daemons[-1].http_port) == (3772, 3774)
    assert fixed.conf["drpc.servers"] == ["127.0.0.1:3772"]
    addressed = {name: f"10.0.0.{number}" for number, name in enumerate(names_of(size), 1)}
    apart = plan_on_machines("/c", size, addressed, defaults(), {})
    assert apart.conf["drpc.servers"] == ["10.0.0.5:3772", "10.0.0.6:3772"]
    assert "drpc.servers" not in plan_with_fixed_ports("/c", Size(), defaults(), {}).conf
    for daemon in (*plan.daemons, *apart.daemons):
        validate(daemon.conf)


def test_a_port_needed_twice_is_one_sentence() -> None:
    sentence = "port 6740 is needed by a worker of supervisor-0 and by acker-1"
    with pytest.raises(UsageError, match=sentence):
        plan_with_fixed_ports("/c", Size(slots=60, ackers=2), defaults(), {})


def test_daemons_on_machines_of_their_own_share_the_ports_and_not_the_host() -> None:
    size = Size(supervisors=2, slots=2, nimbuses=2)
    addresses = {name: f"10.0.0.{number}" for number, name in enumerate(names_of(size), 1)}
    plan = plan_on_machines("/c", size, addresses, defaults(), {"topology.workers": 3})
    assert plan.conf["zookeeper.servers"] == [addresses["zookeeper"]] == ["10.0.0.1"]
    assert plan.conf["nimbus.seeds"] == ["10.0.0.2:6627", "10.0.0.3:6627"]
    listeners = list(plan.listeners())
    assert len({(one.host, one.port) for one in listeners}) == len(listeners)
    for daemon in plan.daemons:
        validate(daemon.conf)
        assert daemon.conf["bind.host"] == daemon.host == addresses[daemon.name]
        assert daemon.conf["topology.workers"] == 3
    supervisors = [daemon for daemon in plan.daemons if daemon.role == "supervisor"]
    assert [(one.grpc_port, one.slots, one.conf["supervisor.id"]) for one in supervisors] == [
        (6628, (6700, 6701), "supervisor-0"),
        (6628, (6700, 6701), "supervisor-1"),
    ]


def test_loopback_addresses_go_on_beyond_the_last_octet() -> None:
    addresses = loopback_addresses(Size(supervisors=300))
    assert addresses["zookeeper"] == "127.0.0.2"
    assert len(set(addresses.values())) == 303
    assert addresses["acker-0"] == "127.0.1.48"


def test_more_machines_than_a_network_has_addresses_are_refused() -> None:
    refused = pytest.raises(UsageError, match=r"^the cluster has 303 machines, expected at most 250$")
    with refused, of_their_own(Size(supervisors=300)):
        pass


@pytest.mark.skipif(not shutil.which("ip"), reason="iproute2 is not installed")
def test_what_the_system_refuses_is_one_sentence() -> None:
    with pytest.raises(UnavailableError, match="ip link show dev nowhere0: "):
        run_ip("link", "show", "dev", "nowhere0")


def test_a_size_that_cannot_be_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^nimbuses is 0, expected at least 1$"):
        Size(nimbuses=0)
