"""``tupletree dev`` and ``tupletree zookeeper``, as their users run them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree import NimbusClient, Spout, Topology, TopologyBuilder
from tupletree._devcluster.guard import processes_of
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import ReservedPorts, bind
from tupletree.testing.wait import wait_until

TUPLETREE = [sys.executable, "-m", "tupletree.cli.main"]


@pytest.fixture
def ports() -> Iterator[ReservedPorts]:
    reserved = ReservedPorts()
    yield reserved
    reserved.release()


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*TUPLETREE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
    keys += [f"{role}.{kind}" for role in ("nimbus", "supervisor", "acker") for kind in ("port", "http.port")]
    *taken, slot = reserved.reserve(len(keys) + 1)
    settings = [f"{key}={port}" for key, port in zip(keys, taken, strict=True)] + [f"supervisor.slots.ports=[{slot}]"]
    options = [option for setting in settings for option in ("-c", setting)]
    return ["dev", "--slots", "1", "--dir", str(directory), "--json", *options]


@pytest.mark.long
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


def test_dev_names_a_port_in_use_and_who_needs_it(ports: ReservedPorts, tmp_path: pathlib.Path) -> None:
    arguments = dev_arguments(ports, tmp_path)
    port = next(int(one.partition("=")[2]) for one in arguments if one.startswith("nimbus.port="))
    with bind("127.0.0.1", port) as taken:
        taken.listen()
        with started(*arguments) as dev:
            stdout, stderr = dev.communicate(timeout=60)
    assert (stdout, dev.returncode) == ("", 1)
    assert stderr == (
        f"tupletree: port {port} on 127.0.0.1 is in use, and nimbus-0 needs it; "
        "set the key nimbus.port to another port\n"
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
