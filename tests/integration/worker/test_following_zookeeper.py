"""A worker process and ZooKeeper: what it may not read ends nothing, and what it was not started for is no error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tcp_proxy
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder
from tupletree._coord import paths
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import Store, encode
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import ReservedPorts
from tupletree._wire.conf_changes import digest
from tupletree.bundle import pack, unpack
from tupletree.config import defaults, encode_conf, topology_part
from tupletree.testing import wait_until
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.launch_file import LaunchFile

ID = "words-1-1"


class Lines(Spout):
    outputs = ["line"]

    def next_tuple(self) -> None: ...


class Split(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None: ...


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("split", Split()).shuffle_grouping("lines")
    return builder.create_topology()


class Scene:
    """One topology in ZooKeeper, without any daemon, and the process of its worker."""

    def __init__(self, client: KazooClient, root: str, port: int, directory: Path) -> None:
        """``port``: where the worker finds ZooKeeper."""
        self.client, self.root, self.directory = client, root, directory
        self.store = Store(client, root)
        reserved = ReservedPorts()
        self.port = reserved.reserve(1, "127.0.0.1")[0]
        reserved.release()
        where = {"zookeeper.servers": ["127.0.0.1"], "zookeeper.port": port, "zookeeper.root": root}
        self.conf = {**defaults(), **where, "topology.acker.executors": 0}
        self.conf_json = encode_conf(topology_part(self.conf))
        pack(topology().spec(), {}, [__file__, tcp_proxy.__file__], None, directory / "bundle")
        unpack(directory / "bundle", directory / "unpacked")

    def record(self, first_task: int) -> None:
        """Store the topology, whose tasks begin with ``first_task``, in one worker."""
        record = pb.TopologyRecord(
            id=ID,
            name="words",
            status=pb.TOPOLOGY_STATUS_ACTIVE,
            conf_json=self.conf_json,
            workers=1,
            tasks={"lines": 1, "split": 1},
            executors={"lines": 1, "split": 1},
            first_task=first_task if first_task > 1 else 0,
        )
        assignment = pb.Assignment(topology_id=ID, version=1, shard_version=1)
        worker = assignment.workers.add(supervisor_id="s", host="127.0.0.1", port=self.port)
        for task in (first_task, first_task + 1):
            worker.executors.add(first_task=task, last_task=task)
        for path, data in (
            (paths.topology(self.root, ID), encode(record)),
            (paths.workers_of(self.root, ID), b""),
            (paths.errors_of(self.root, ID), b""),
            (paths.assignment(self.root, ID), encode(assignment)),
        ):
            self.client.create(path, data, makepath=True)

    def start(self, tasks: list[tuple[str, int, int]]) -> subprocess.Popen[bytes]:
        launch = LaunchFile(
            topology_id=ID,
            worker_id="w1",
            supervisor_id="s",
            supervisor_address="127.0.0.1:1",
            host="127.0.0.1",
            port=self.port,
            bind_host="127.0.0.1",
            http_port=0,
            bundle_dir=str(self.directory / "unpacked"),
            log_dir=str(self.directory),
            conf=self.conf,
            tasks=tasks,
            worker_dir=str(self.directory),
            conf_digest=digest(self.conf_json),
        )
        path = self.directory / "launch.json"
        path.write_text(json.dumps(asdict(launch)))
        return subprocess.Popen([sys.executable, "-m", "tupletree.worker", "--launch", str(path)], cwd=self.directory)

    def log(self) -> str:
        path = self.directory / "worker.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[tcp_proxy.Proxy]:
    with tcp_proxy.Proxy(zookeeper.port) as one:
        yield one


@pytest.fixture
def scene(zookeeper: EmbeddedZooKeeper, proxy: tcp_proxy.Proxy, zookeeper_root: str, tmp_path: Path) -> Iterator[Scene]:
    client = connect({**defaults(), "zookeeper.servers": [zookeeper.host], "zookeeper.port": zookeeper.port})
    try:
        yield Scene(client, zookeeper_root, proxy.port, tmp_path)
    finally:
        disconnect(client)


def test_a_worker_outlives_what_it_may_not_read_for_a_while(scene: Scene, proxy: tcp_proxy.Proxy) -> None:
    scene.record(first_task=1)
    process = scene.start([])
    try:
        wait_until(lambda: "worker.ready" in scene.log(), 30, what="the worker is ready")
        folder = paths.workers_of(scene.root, ID)
        scene.client.set_acls(folder, [make_acl("world", "anyone", create=True, delete=True, admin=True)])
        proxy.cut()  # what was read before is read again
        wait_until(lambda: "assignment.unreadable" in scene.log() or process.poll() is not None, what="it has read")
        assert process.poll() is None
        scene.client.set_acls(folder, OPEN_ACL_UNSAFE)
        scene.client.delete(paths.assignment(scene.root, ID))
        assert process.wait(20) == 0
        assert scene.store.errors(ID) == []
    finally:
        process.kill()
        process.wait()


def test_a_worker_that_starts_late_for_tasks_that_are_gone_ends_without_an_error(scene: Scene) -> None:
    scene.record(first_task=3)  # an update, or a rebalance of tasks, which its supervisor has not seen yet
    process = scene.start([])
    try:
        assert process.wait(30) == 0
        assert "worker.unassigned" in scene.log()
        assert scene.store.errors(ID) == []
    finally:
        process.kill()
        process.wait()
