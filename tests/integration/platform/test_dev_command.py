"""``tupletree dev`` and ``tupletree zookeeper``, as their users run them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tupletree import NimbusClient, Spout, Topology, TopologyBuilder
from tupletree._devcluster.guard import processes_of
from tupletree._devcluster.machines import why_not
from tupletree._devcluster.workers import live_workers
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import ReservedPorts, bind
from tupletree.drpc import DRPCClient
from tupletree.errors import DRPCTimeoutError
from tupletree.testing.wait import wait_until

pytestmark = pytest.mark.long

TUPLETREE = [sys.executable, "-m", "tupletree.cli.main"]


@pytest.fixture
def ports() -> Iterator[ReservedPorts]:
    reserved = ReservedPorts()
    yield reserved
    reserved.release()


@contextlib.contextmanager
def started(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*TUPLETREE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_event(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.stderr.read() if process.stderr is not None else "no output")
    event: dict[str, Any] = json.loads(line)
    return event


class Idle(Spout):
    outputs = ["nothing"]

    def next_tuple(self) -> None:
        pass


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("idle", Idle())
    return builder.create_topology()


def dev_arguments(reserved: ReservedPorts, directory: pathlib.Path) -> list[str]:
    keys = ["zookeeper.port"]
    roles = ("nimbus", "supervisor", "acker", "drpc")
    keys += [f"{role}.{kind}" for role in roles for kind in ("port", "http.port")]
    *taken, slot = reserved.reserve(len(keys) + 1)
    settings = [f"{key}={port}" for key, port in zip(keys, taken, strict=True)] + [f"supervisor.slots.ports=[{slot}]"]
    options = [option for setting in settings for option in ("-c", setting)]
    return ["dev", "--slots", "1", "--dir", str(directory), "--json", *options]


def test_dev_starts_a_drpc_server_too_and_names_it(ports: ReservedPorts, tmp_path: pathlib.Path) -> None:
    arguments = [one for one in dev_arguments(ports, tmp_path) if one != "--json"]
    with started(*arguments, "--drpc") as dev:
        assert dev.stdout is not None
        banner = []
        while not banner or "Ctrl-C" not in banner[-1]:
            banner.append(dev.stdout.readline())
            assert banner[-1], dev.stderr.read() if dev.stderr is not None else ""
        [line] = [line for line in banner if line.startswith("  drpc-0 ")]
        address = line.split()[1]
        with DRPCClient(address) as client, pytest.raises(DRPCTimeoutError, match="no topology has served"):
            client.execute("nothing", timeout_s=0.1)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/drpc/FUNCTION", line.split()[2])
        dev.send_signal(signal.SIGINT)
        assert dev.wait(60) == 0
    assert processes_of(str(tmp_path)) == []


def test_dev_restarts_what_dies_ends_on_ctrl_c_and_goes_on_where_it_was(
    ports: ReservedPorts, tmp_path: pathlib.Path
) -> None:
    arguments = dev_arguments(ports, tmp_path)
    with started(*arguments) as dev:
        ready = next_event(dev)
        assert ready["event"] == "ready"
        pids = {process["name"]: process["pid"] for process in ready["processes"]}
        assert list(pids) == ["zookeeper", "nimbus-0", "supervisor-0", "acker-0"]
        with NimbusClient(ready["nimbus_seeds"]) as client:
            wait_until(lambda: len(client.cluster().supervisors) == 1, 30)
            topology_id = client.submit("kept", topology(), inactive=True)
        os.kill(pids["acker-0"], signal.SIGKILL)
        died, restarted = next_event(dev), next_event(dev)
        assert (died["event"], died["name"], died["reason"]) == ("died", "acker-0", "was ended by SIGKILL")
        assert (restarted["event"], restarted["name"]) == ("restarted", "acker-0")
        assert restarted["pid"] != pids["acker-0"]

        dev.send_signal(signal.SIGINT)
        assert next_event(dev) == {"event": "stopped"}
        assert dev.wait(30) == 0
        assert processes_of(str(tmp_path)) == []

    with started(*arguments) as dev, NimbusClient(next_event(dev)["nimbus_seeds"]) as client:
        wait_until(lambda: [one.record.id for one in client.list()] == [topology_id], 30)
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(30) == 0


def topology_of_two() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("idle", Idle(), 2)
    return builder.create_topology()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_each_process_has_a_machine_of_its_own_and_none_is_left(
    ports: ReservedPorts, tmp_path: pathlib.Path, number: int
) -> None:
    with started(*dev_arguments(ports, tmp_path), "--machines", "--supervisors", "2") as dev:
        ready = next_event(dev)
        [seed] = ready["nimbus_seeds"]
        uplink = pathlib.Path("/sys/class/net", f"tupletree{seed.split('.')[2]}")
        assert uplink.exists() == (why_not() == "")
        with NimbusClient(ready["nimbus_seeds"]) as client:
            wait_until(lambda: len(client.cluster().supervisors) == 2, 30, what="both supervisors are registered")
            hosts = {one.presence.host for one in client.cluster().supervisors}
            client.submit("spread", topology_of_two(), {"topology.workers": 2})
            used = "both supervisors have a worker"
            wait_until(lambda: [one.slots_used for one in client.cluster().supervisors] == [1, 1], 30, what=used)
            wait_until(lambda: len(live_workers(str(tmp_path))) == 2, 60, what="the workers run")
        assert len(hosts | {seed.partition(":")[0], ready["zookeeper"].partition(":")[0]}) == 4
        dev.send_signal(number)
        assert dev.wait(60) == (0 if number == signal.SIGTERM else -number)
        wait_until(lambda: processes_of(str(tmp_path)) == [], 30, what="every process ends")
        wait_until(lambda: not uplink.exists(), 30, what="the network goes")


def test_machines_are_loopback_addresses_where_there_can_be_no_namespaces(
    ports: ReservedPorts, tmp_path: pathlib.Path
) -> None:
    java, programs = shutil.which("java"), tmp_path / "programs"
    assert java is not None
    programs.mkdir()
    (programs / "java").symlink_to(java)
    arguments = [*dev_arguments(ports, tmp_path / "cluster"), "--machines", "--supervisors", "2"]
    with started(*arguments, env={**os.environ, "PATH": str(programs)}) as dev:
        ready = next_event(dev)
        with NimbusClient(ready["nimbus_seeds"]) as client:
            wait_until(lambda: len(client.cluster().supervisors) == 2, 30, what="both supervisors are registered")
            assert [one.presence.host for one in client.cluster().supervisors] == ["127.0.0.4", "127.0.0.5"]
        dev.send_signal(signal.SIGTERM)
        _, stderr = dev.communicate(timeout=60)
    assert dev.returncode == 0
    assert stderr.startswith(
        "Each process has an address of the loopback interface, and no namespace of its own: network namespaces need "
    )


def test_dev_names_a_port_in_use_and_who_needs_it(ports: ReservedPorts, tmp_path: pathlib.Path) -> None:
    arguments = dev_arguments(ports, tmp_path)
    port = next(int(one.partition("=")[2]) for one in arguments if one.startswith("nimbus.port="))
    with bind("127.0.0.1", port) as taken:
        taken.listen()
        with started(*arguments) as dev:
            stdout, stderr = dev.communicate(timeout=60)
    assert (stdout, dev.returncode) == ("", 1)
    assert re.fullmatch(
        rf"tupletree: port {port} on 127\.0\.0\.1 is in use, and nimbus-0 needs it; "
        r"add -c nimbus\.port=\d+ to the command\n",
        stderr,
    )


def test_zookeeper_serves_until_it_is_told_to_stop(ports: ReservedPorts, tmp_path: pathlib.Path) -> None:
    [port] = ports.reserve(1)
    with started("zookeeper", "--port", str(port), "--dir", str(tmp_path), "--json") as command:
        ready = next_event(command)
        assert ready == {
            "event": "ready",
            "zookeeper": f"127.0.0.1:{port}",
            "directory": str(tmp_path),
            "pid": ready["pid"],
        }
        assert EmbeddedZooKeeper(tmp_path, port).answers()
        command.send_signal(signal.SIGTERM)
        assert command.wait(30) == 0
        assert processes_of(str(tmp_path)) == []


def test_zookeeper_that_dies_ends_the_command(ports: ReservedPorts, tmp_path: pathlib.Path) -> None:
    [port] = ports.reserve(1)
    with started("zookeeper", "--port", str(port), "--dir", str(tmp_path), "--json") as command:
        os.kill(next_event(command)["pid"], signal.SIGKILL)
        _, stderr = command.communicate(timeout=30)
    assert (stderr, command.returncode) == ("tupletree: ZooKeeper was ended by SIGKILL\n", 1)
