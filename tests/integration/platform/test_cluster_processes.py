"""The processes of a cluster on this machine: started, killed, restarted, ended. With ZooKeeper and ackers alone."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree._devcluster.foreground import DaemonDied, DaemonRestarted, Foreground, check_ports, lock_directory
from tupletree._devcluster.guard import processes_of
from tupletree._devcluster.plan import ClusterPlan, Size, plan_with_fixed_ports, plan_with_ports
from tupletree._devcluster.running import RunningCluster
from tupletree._net import ReservedPorts, bind
from tupletree.config import load, load_explicit
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing.wait import wait_until

PORTS = ("port", "http.port")


@pytest.fixture
def plan() -> Iterator[ClusterPlan]:
    """ZooKeeper and one acker, in a directory that the cluster removes."""
    ports = ReservedPorts()
    directory = os.path.realpath(tempfile.mkdtemp(prefix="tupletree-test-"))
    whole = plan_with_ports(directory, Size(), ports.reserve(Size().ports), {})
    yield dataclasses.replace(whole, daemons=tuple(one for one in whole.daemons if one.role == "acker"))
    ports.release()
    assert processes_of(directory) == []
    assert not os.path.exists(directory)


@contextlib.contextmanager
def running(plan: ClusterPlan) -> Iterator[RunningCluster]:
    cluster = RunningCluster(plan, remove=True, durable=False)
    cluster.start(60)
    try:
        yield cluster
    finally:
        cluster.close()


def with_conf(plan: ClusterPlan, **conf: Any) -> ClusterPlan:
    daemons = tuple(dataclasses.replace(one, conf={**one.conf, **conf}) for one in plan.daemons)
    return dataclasses.replace(plan, daemons=daemons)


def test_a_killed_daemon_comes_back_on_its_ports(plan: ClusterPlan) -> None:
    with running(plan) as cluster:
        assert [process.name for process in cluster.processes()] == ["zookeeper", "acker-0"]
        before = cluster.processes()[1]
        acker = cluster.daemons[0]
        acker.signal(signal.SIGKILL)
        assert [process.name for process in cluster.processes()] == ["zookeeper"]
        acker.launch()
        wait_until(acker.ready, 30)
        after = cluster.processes()[1]
        assert (after.grpc_port, after.http_port) == (before.grpc_port, before.http_port)
        assert after.pid != before.pid


def test_a_daemon_that_does_not_start_is_named_with_what_it_said(plan: ClusterPlan) -> None:
    with bind("127.0.0.1", plan.daemons[0].grpc_port) as taken:
        taken.listen()
        with pytest.raises(UsageError, match=rf"^acker-0 ended with status 2: port {taken.getsockname()[1]} .* in use"):
            RunningCluster(plan, remove=True, durable=False).start(60)


@pytest.mark.nightly
def test_a_daemon_that_is_never_ready_is_named_with_its_reasons(plan: ClusterPlan) -> None:
    nowhere = with_conf(plan, **{"zookeeper.port": 9})
    # Long enough for ZooKeeper, which has the same time to answer in, on a machine that does other things too.
    with pytest.raises(UnavailableError, match=r"^acker-0 is not ready after 10 s: .+ \(see .+\)$"):
        RunningCluster(nowhere, remove=True, durable=False).start(10)


OWNER = """
import sys, time, dataclasses
from tupletree._devcluster.plan import Size, plan_with_ports
from tupletree._devcluster.running import RunningCluster
from tupletree._net import ReservedPorts
ports = ReservedPorts()
plan = plan_with_ports(sys.argv[1], Size(), ports.reserve(Size().ports), {})
plan = dataclasses.replace(plan, daemons=tuple(one for one in plan.daemons if one.role == "acker"))
RunningCluster(plan, remove=True, durable=False).start(60)
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.nightly
def test_killing_the_owner_ends_all(tmp_path: pathlib.Path) -> None:
    directory = str(tmp_path / "cluster")
    os.mkdir(directory)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, directory], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        assert len(processes_of(directory)) == 2
    finally:
        owner.kill()
        owner.communicate()
    wait_until(lambda: not os.path.exists(directory), 20)
    assert processes_of(directory) == []


@pytest.mark.nightly
def test_the_foreground_restarts_what_dies(plan: ClusterPlan) -> None:
    events: list[object] = []
    foreground = Foreground(plan, remove=True, durable=False, report=events.append)
    foreground.start(60)
    watching = threading.Thread(target=foreground.watch)
    watching.start()
    try:
        cluster = foreground.cluster
        acker, zookeeper = cluster.daemons[0], cluster.zookeeper
        pids = {"acker-0": acker.pid, "zookeeper": zookeeper.pid}
        os.kill(acker.pid, signal.SIGKILL)
        os.kill(zookeeper.pid, signal.SIGKILL)
        wait_until(lambda: len([event for event in events if isinstance(event, DaemonRestarted)]) == 2, 20)
        wait_until(lambda: zookeeper.answers() and acker.ready(), 30)
        assert {"acker-0": acker.pid, "zookeeper": zookeeper.pid}.keys() == pids.keys()
        assert acker.pid != pids["acker-0"]
        assert zookeeper.pid != pids["zookeeper"]
        died = {event.name: event.reason for event in events if isinstance(event, DaemonDied)}
        assert died == {"acker-0": "was ended by SIGKILL", "zookeeper": "was ended by SIGKILL"}
    finally:
        foreground.stop()
        watching.join()
        foreground.close()


def test_a_port_in_use_is_named_before_anything_starts(plan: ClusterPlan) -> None:
    port = plan.daemons[0].http_port
    with bind("127.0.0.1", port) as taken:
        taken.listen()
        with pytest.raises(UnavailableError) as refused:
            check_ports(plan)
    assert re.fullmatch(
        rf"port {port} on 127\.0\.0\.1 is in use, and acker-0 needs it; add -c acker\.http\.port=\d+ to the command",
        str(refused.value),
    )
    os.rmdir(plan.directory)


def test_a_cluster_fits_with_the_options_that_a_refusal_names(plan: ClusterPlan) -> None:
    keys = ("zookeeper.port", *(f"{role}.{port}" for role in ("nimbus", "supervisor", "acker") for port in PORTS))

    def planned(options: list[str]) -> ClusterPlan:
        return plan_with_fixed_ports(plan.directory, Size(slots=1), load(None, options), load_explicit(None, options))

    with contextlib.ExitStack() as stack:
        ports = ReservedPorts()
        stack.callback(ports.release)
        given = [f"{key}={port}" for key, port in zip([*keys, "supervisor.slots.ports"], ports.reserve(8), strict=True)]
        nimbus, slot = (int(given[number].partition("=")[2]) for number in (1, 7))
        with bind("127.0.0.1", nimbus) as one, bind("127.0.0.1", slot) as other:
            one.listen()
            other.listen()
            with pytest.raises(UnavailableError) as refused:
                check_ports(planned(given))
            options = re.findall(r"-c (\S+)", str(refused.value))
            assert [option.partition("=")[0] for option in options] == ["nimbus.port", "supervisor.slots.ports"]
            assert str(refused.value) == (
                f"port {nimbus} on 127.0.0.1 is in use, and nimbus-0 needs it, port {slot} on 127.0.0.1 is in use, and "
                f"a worker of supervisor-0 needs it; add -c {options[0]} -c {options[1]} to the command"
            )
            check_ports(planned([*given, *options]))
            for number in (3, 5):  # of the supervisor and of the acker
                stack.enter_context(bind("127.0.0.1", int(given[number].partition("=")[2]))).listen()
            with pytest.raises(
                UnavailableError, match=rf"^a cluster seems to run here already, as ports {nimbus}, .* ar"
            ):
                check_ports(planned(given))
    os.rmdir(plan.directory)


def test_an_address_of_another_machine_gets_no_advice_about_ports(plan: ClusterPlan) -> None:
    elsewhere = with_conf(plan, **{"bind.host": "192.0.2.1"})
    with pytest.raises(UnavailableError, match=r"it is not an address of this machine, and acker-0 needs it$"):
        check_ports(elsewhere)
    os.rmdir(plan.directory)


def test_a_directory_serves_one_cluster_at_a_time(tmp_path: pathlib.Path) -> None:
    with (
        lock_directory(str(tmp_path)),
        pytest.raises(UsageError, match=rf"^another cluster \(process {os.getpid()}\) runs in "),
        lock_directory(str(tmp_path)),
    ):
        pass
    with lock_directory(str(tmp_path)):
        pass
