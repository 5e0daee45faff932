"""A real supervisor process on a real ZooKeeper, with assignments written as nimbus writes them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import yaml
from kazoo.client import KazooClient

from tupletree import bundle
from tupletree._coord import paths
from tupletree._coord.session import connect, disconnect
from tupletree._coord.store import Store, encode
from tupletree._devcluster.guard import Guard, end_all
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import ReservedPorts
from tupletree._process_table import command_lines, started
from tupletree._rpc.channels import channel
from tupletree.bundle import BundleInfo
from tupletree.config import defaults
from tupletree.errors import UnavailableError
from tupletree.testing.wait import wait_until
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc, supervisor_pb2, supervisor_pb2_grpc
from tupletree.v1.topology_pb2 import (
    Assignment,
    ExecutorRange,
    TopologyRecord,
    TopologySpec,
    TopologyStatus,
    WorkerAssignment,
    WorkerPresence,
)

SUPERVISOR = "me"
SUPERVISE = (sys.executable, "-m", "tupletree.supervisor")


def alive(pid: int) -> bool:
    """True if a process lives; a zombie does not."""
    return started(pid) is not None


class BundleServer(nimbus_pb2_grpc.NimbusServicer):
    """Serves bundles from files as the leader does. ``cut_after`` bytes it breaks off; ``spoil`` flips a byte."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[nimbus_pb2.FetchBundleRequest] = []
        self.cut_after: int | None = None
        self.spoil = False
        self._server = grpc.server(ThreadPoolExecutor(4))
        nimbus_pb2_grpc.add_NimbusServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def add(self, path: Path) -> BundleInfo:
        info = bundle.digest(path)
        self.files[info.sha256] = path.read_bytes()
        return info

    def GetLeader(self, request: Any, context: grpc.ServicerContext) -> nimbus_pb2.GetLeaderReply:
        return nimbus_pb2.GetLeaderReply(address=self.address, epoch=1, is_me=True)

    def FetchBundle(
        self, request: nimbus_pb2.FetchBundleRequest, context: grpc.ServicerContext
    ) -> Iterator[nimbus_pb2.FetchBundleReply]:
        self.requests.append(request)
        data = self.files.get(request.sha256)
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no bundle {request.sha256}")
            return
        if self.spoil:
            data = bytes([data[0] ^ 1]) + data[1:]
        sent = 0
        for start in range(request.offset, len(data), 100):
            if self.cut_after is not None and sent >= self.cut_after:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the leader is going down")
            chunk = data[start : start + 100]
            sent += len(chunk)
            yield nimbus_pb2.FetchBundleReply(chunk=chunk)

    def close(self) -> None:
        self._server.stop(None)


@dataclass
class Supervisor:
    """One supervisor with its directory; its process may be started, killed and started again."""

    directory: Path
    zookeeper: EmbeddedZooKeeper
    root: str
    bundles: BundleServer
    store: Store
    conf: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    topologies: list[str] = field(default_factory=list)
    epoch: int = 1

    # The process

    def launch(self, **conf: Any) -> None:
        self.conf.update(conf)
        (self.directory / "tupletree.yaml").write_text(yaml.safe_dump(self.conf))
        (self.directory / "announce.json").unlink(missing_ok=True)
        here = str(Path(__file__).parent)
        with open(self.directory / "out.log", "ab") as out:
            self.process = subprocess.Popen(
                [
                    *SUPERVISE,
                    "--conf",
                    self.directory / "tupletree.yaml",
                    "--announce",
                    self.directory / "announce.json",
                ],
                env={
                    **os.environ,
                    "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}",
                    "STANDIN_OWNER": str(os.getpid()),
                },
                stdout=out,
                stderr=out,
            )

    def start(self, **conf: Any) -> None:
        self.launch(**conf)
        wait_until(self.ready, 20, what=f"supervisor ready ({self.output()})")

    def signal(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal()
        self.join()

    def join(self) -> int:
        assert self.process is not None
        return self.process.wait(20)

    def announced(self) -> dict[str, Any]:
        path = self.directory / "announce.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def get(self, path: str) -> tuple[int, str]:
        facts = wait_until(self.announced, 20, what="announced")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{facts['http_port']}{path}", timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output()
        return bool(self.announced()) and self.get("/readyz")[0] == 200

    def output(self) -> str:
        path = self.directory / "out.log"
        return path.read_text() if path.exists() else ""

    def log(self) -> str:
        return (self.directory / "logs" / "supervisor.log").read_text()

    # What nimbus does

    def submit(self, name: str, bundle_info: BundleInfo, *, conf_json: str | None = None, **conf: Any) -> str:
        """Store the record of a topology, with ``conf_json`` in the place of ``conf`` if given; returns its id."""
        record = TopologyRecord(
            id=f"{name}-1-1",
            name=name,
            status=TopologyStatus.TOPOLOGY_STATUS_ACTIVE,
            conf_json=json.dumps(conf) if conf_json is None else conf_json,
            bundle_sha256=bundle_info.sha256,
            bundle_bytes=bundle_info.size,
        )
        client: KazooClient = self.store.client
        client.create(paths.topology(self.root, record.id), encode(record), makepath=True)
        client.create(paths.workers_of(self.root, record.id), makepath=True)
        client.create(paths.errors_of(self.root, record.id), makepath=True)
        self.topologies.append(record.id)
        return record.id

    def assign(self, topology_id: str, *ports: int, tasks: int = 1) -> None:
        """Say where a topology runs; without ports, nowhere."""
        path = paths.assignment(self.root, topology_id)
        client: KazooClient = self.store.client
        executors = [ExecutorRange(first_task=1, last_task=tasks)]
        workers = [WorkerAssignment(supervisor_id=SUPERVISOR, port=port, executors=executors) for port in ports]
        data = encode(Assignment(topology_id=topology_id, epoch=self.epoch, workers=workers))
        if client.exists(path):
            client.set(path, data)
        else:
            client.create(path, data, makepath=True)

    def remove(self, topology_id: str) -> None:
        client: KazooClient = self.store.client
        for path in (paths.assignment, paths.topology, paths.workers_of, paths.errors_of):
            client.delete(path(self.root, topology_id), recursive=True)

    # What the supervisor shows

    @contextlib.contextmanager
    def stub(self) -> Iterator[supervisor_pb2_grpc.SupervisorStub]:
        with channel(f"127.0.0.1:{self.announced()['grpc_port']}") as peer:
            yield supervisor_pb2_grpc.SupervisorStub(peer)

    def slots(self) -> list[supervisor_pb2.SlotSummary]:
        with self.stub() as stub:
            return list(stub.ListSlots(supervisor_pb2.ListSlotsRequest(), timeout=5).slots)

    def slot(self, port: int) -> supervisor_pb2.SlotSummary:
        return next(one for one in self.slots() if one.port == port)

    def wait_slot(self, port: int, state: str, unlike: str = "-", timeout: float = 15) -> supervisor_pb2.SlotSummary:
        """The slot once it is in that state with another worker than ``unlike``."""

        def reached() -> supervisor_pb2.SlotSummary | None:
            slot = self.slot(port)
            return slot if slot.state == state and slot.worker_id != unlike else None

        try:
            found = wait_until(reached, timeout, what=f"slot {port} {state}")
        except TimeoutError as error:
            raise AssertionError(f"{error}; it is {self.slot(port)}; {self.log()[-3000:]}") from error
        assert found is not None
        return found

    def presences(self, topology_id: str) -> dict[int, WorkerPresence]:
        return {port: one for (_, port), one in self.store.worker_presences(topology_id).items()}

    def wait_presence(self, topology_id: str, port: int, worker_id: str, timeout: float = 10) -> WorkerPresence:
        def shown() -> WorkerPresence | None:
            presence = None
            with contextlib.suppress(UnavailableError):  # ZooKeeper was restarted
                presence = self.presences(topology_id).get(port)
            return presence if presence is not None and presence.worker_id == worker_id else None

        found = wait_until(shown, timeout, what=f"presence of {worker_id}")
        assert found is not None
        return found

    @property
    def ports(self) -> list[int]:
        return list(self.conf["supervisor.slots.ports"])


def time_until(condition: Callable[[], object], timeout: float = 10) -> float:
    """How many seconds it took until ``condition()``."""
    begun = time.monotonic()
    wait_until(condition, timeout)
    return time.monotonic() - begun


def make_bundle(directory: Path, name: str = "bundle", requirements: str | None = None) -> Path:
    """A bundle without components, which no two names share."""
    path = directory / f"{name}.tar.gz"
    needs: Path | None = None
    if requirements is not None:
        needs = directory / f"{name}-requirements.txt"
        needs.write_text(requirements)
    code = directory / f"{name}_code.py"
    code.write_text(f"NAME = {name!r}\n" + "# padding\n" * 50)
    bundle.pack(TopologySpec(), {}, [code], needs, path)
    return path


@contextlib.contextmanager
def supervisor(zookeeper: EmbeddedZooKeeper, root: str, slots: int, **conf: Any) -> Iterator[Supervisor]:
    """A supervisor that is not started yet. Whatever it and the tests start ends with the context."""
    bundles, ports = BundleServer(), ReservedPorts()
    with tempfile.TemporaryDirectory(prefix="tupletree-supervisor-") as temporary:
        directory = Path(os.path.realpath(temporary))
        guard = Guard(str(directory), remove=False)
        own = {
            "zookeeper.servers": [zookeeper.connect_string],
            "zookeeper.root": root,
            "zookeeper.session.timeout": 6000,
            "zookeeper.connection.timeout": 1000,
            "local.dir": str(directory / "data"),
            "logs.dir": str(directory / "logs"),
            "nimbus.seeds": [bundles.address],
            "supervisor.id": SUPERVISOR,
            "supervisor.port": 0,
            "supervisor.http.port": 0,
            "supervisor.slots.ports": ports.reserve(slots),
            "supervisor.worker.module": "standin_worker",
            **conf,
        }
        client = connect(
            {**defaults(), **own, "zookeeper.session.timeout": 60_000, "zookeeper.connection.timeout": 15_000}
        )
        for folder in paths.folders(root):
            client.ensure_path(folder)
        subject = Supervisor(directory, zookeeper, root, bundles, Store(client, root), own)
        try:
            yield subject
        finally:
            if subject.process is not None:
                subject.process.kill()
                subject.process.wait()
            for pid in workers_of(directory):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            end_all(str(directory))
            guard.close()
            disconnect(client)
            bundles.close()
            ports.release()


def workers_of(directory: Path) -> list[int]:
    """The stand-in workers that run below a directory, and their children."""
    return [
        pid
        for pid, arguments in command_lines()
        if "standin_worker" in arguments and any(one.startswith(str(directory)) for one in arguments)
    ]
