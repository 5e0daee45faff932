"""Real nimbus and acker processes; supervisors are what they are to nimbus, registrations in ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import Store
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree.bundle import pack
from tupletree.client import NimbusClient
from tupletree.errors import UnavailableError
from tupletree.nimbus.submission.validation import without_objects
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.nimbus_pb2_grpc import NimbusStub


class Lines(Spout):
    outputs = ["line"]

    def next_tuple(self) -> None:
        pass


class Split(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: object, collector: object) -> None:
        pass


def topology(lines: int = 2, split: int = 2) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), parallelism=lines)
    builder.set_bolt("split", Split(), parallelism=split).shuffle_grouping("lines")
    return builder.create_topology()


class Daemon:
    """One daemon process of ours, serving when constructed."""

    def __init__(self, module: str, directory: Path, settings: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        told = directory / "announce.json"
        told.unlink(missing_ok=True)
        command = [sys.executable, "-m", module, "--announce", str(told)]
        self.process = subprocess.Popen(
            [*command, *(argument for one in settings for argument in ("-c", one))],
            cwd=directory,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: told.exists() or self.process.poll() is not None, 30, what=f"{module} serves")
        assert self.process.poll() is None, self.stderr()
        facts = json.loads(told.read_text())
        self.id: str = facts["id"]
        self.grpc_port: int = facts["grpc_port"]
        self.http_port: int = facts["http_port"]
        self.address = f"127.0.0.1:{self.grpc_port}"

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
        return self.process.wait(20)

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def readiness(self) -> tuple[bool, list[str]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/readyz", timeout=5) as reply:
                found = json.load(reply)
        except urllib.error.HTTPError as error:
            found = json.load(error)
        return found["ready"], found["reasons"]

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=5) as reply:
            return reply.read().decode()

    def log(self, role: str = "nimbus") -> str:
        return (self.directory / "logs" / f"{role}.log").read_text()


class NimbusProcess(Daemon):
    """One nimbus."""

    @property
    def blobs(self) -> Path:
        return self.directory / "nimbus" / "blobs"

    def files(self) -> list[str]:
        """What its blob store holds, temporary files included."""
        return sorted(str(path.relative_to(self.blobs)) for path in self.blobs.rglob("*") if path.is_file())

    def leader(self) -> rpc.GetLeaderReply:
        with channel(self.address) as one:
            return NimbusStub(one).GetLeader(rpc.GetLeaderRequest(), timeout=5)

    def leads(self) -> bool:
        return self.leader().is_me


@dataclass(frozen=True)
class Submission:
    """A bundle and its header, to be uploaded whole or in part, as it is or spoilt."""

    header: rpc.SubmitHeader
    data: bytes

    def requests(self, chunk: int = 64 * 1024) -> Iterator[rpc.SubmitRequest]:
        yield rpc.SubmitRequest(header=self.header)
        for start in range(0, len(self.data), chunk):
            yield rpc.SubmitRequest(chunk=self.data[start : start + chunk])


def submission(directory: Path, name: str, padding: int = 0) -> Submission:
    """A packed topology; ``padding`` bytes that do not compress make the bundle larger."""
    code = directory / "padding.txt"
    code.write_bytes(os.urandom(padding))
    spec = topology().spec()
    path = directory / "bundle.tar.gz"
    found = pack(spec, {}, [code], None, path)
    header = rpc.SubmitHeader(
        name=name, conf_json="{}", sha256=found.sha256, size=found.size, spec=without_objects(spec), owner="me"
    )
    return Submission(header, path.read_bytes())


def upload(address: str, requests: Iterator[rpc.SubmitRequest], timeout: float = 30) -> str:
    """Submit by hand. Raises what the client would."""
    with channel(address) as one:
        try:
            return str(NimbusStub(one).Submit(requests, timeout=timeout).topology_id)
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"nimbus at {address}") from None


class Bench:
    """Everything of one test: processes, registrations and sessions, ended with it."""

    def __init__(self, directory: Path, zookeeper: EmbeddedZooKeeper, root: str) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.settings = [
            f"zookeeper.servers=[{zookeeper.connect_string}]",
            f"zookeeper.root={root}",
            "zookeeper.session.timeout=20000",
        ]
        self.root = root
        self._daemons: list[Daemon] = []
        self._clients: list[NimbusClient] = []
        conf = {
            "zookeeper.servers": [zookeeper.connect_string],
            "zookeeper.port": 2181,
            "zookeeper.session.timeout": 20_000,
            "zookeeper.connection.timeout": 10_000,
        }
        self.session = connect(conf)
        self.store = Store(self.session, root)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for daemon in self._daemons:
            if daemon.process.poll() is None:
                daemon.kill()
            if daemon.process.stderr is not None:
                daemon.process.stderr.close()
        disconnect(self.session)

    def nimbus(self, name: str = "n1", *settings: str) -> NimbusProcess:
        directory = self.directory / name
        own = [f"local.dir={directory}", "nimbus.port=0", "nimbus.http.port=0"]
        daemon = NimbusProcess("tupletree.nimbus", directory, [*self.settings, *own, *settings])
        self._daemons.append(daemon)
        return daemon

    def leader(self, name: str = "n1", *settings: str) -> NimbusProcess:
        """A nimbus that leads."""
        daemon = self.nimbus(name, *settings)
        wait_until(daemon.leads, 20, what=f"{name} leads")
        return daemon

    def acker(self, name: str, *settings: str) -> Daemon:
        directory = self.directory / name
        own = [f"local.dir={directory}", "acker.port=0", "acker.http.port=0"]
        daemon = Daemon("tupletree.acker", directory, [*self.settings, *own, *settings])
        self._daemons.append(daemon)
        return daemon

    def client(self, *nimbuses: NimbusProcess) -> NimbusClient:
        client = NimbusClient([one.address for one in nimbuses])
        self._clients.append(client)
        return client

    def register_supervisor(self, name: str, *ports: int) -> Registration:
        presence = pb.Presence(id=name, host="127.0.0.1", grpc_port=1, slots=ports)
        registration = Registration(self.session, self.root, "supervisor", presence)
        registration.start()
        return registration

    def assignment(self, topology_id: str) -> pb.Assignment:
        found = self.store.assignment(topology_id)
        return found.value if found is not None else pb.Assignment()

    def await_assignment(
        self, topology_id: str, condition: Callable[[pb.Assignment], object], timeout: float = 10
    ) -> pb.Assignment:
        def met() -> pb.Assignment | None:
            found = self.assignment(topology_id)
            return found if condition(found) else None

        return wait_until(met, timeout, what=f"the assignment of {topology_id}")  # type: ignore[return-value]


def report(topology_id: str, supervisor: str, port: int, worker_id: str, *tasks: rpc.TaskStats) -> rpc.WorkerReport:
    return rpc.WorkerReport(
        topology_id=topology_id,
        worker_id=worker_id,
        supervisor_id=supervisor,
        host="127.0.0.1",
        port=port,
        pid=1,
        ready=True,
        uptime_s=10,
        tasks=tasks,
    )


def send_report(nimbus: NimbusProcess, one: rpc.WorkerReport) -> rpc.WorkerReportReply:
    with channel(nimbus.address) as opened:
        try:
            (reply,) = NimbusStub(opened).ReportWorker(iter([one]), timeout=5)
            return reply
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None


__all__ = ["Bench", "Daemon", "NimbusProcess", "Submission", "UnavailableError", "report", "submission", "topology"]
