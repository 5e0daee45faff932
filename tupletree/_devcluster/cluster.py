"""DevCluster: a complete cluster of real processes for tests, the demo and experiments."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import grpc

from tupletree._devcluster.daemon import DaemonProcess
from tupletree._devcluster.plan import Size, plan_with_ports, with_supervisor_confs
from tupletree._devcluster.running import ProcessInfo, RunningCluster, wait_for
from tupletree._devcluster.workers import LiveWorker, restart_worker
from tupletree._net import ReservedPorts
from tupletree._rpc.status import from_rpc_error
from tupletree.client import NimbusClient
from tupletree.config import defaults, validate
from tupletree.errors import NotFoundError, UnavailableError, UsageError

START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 5.0
_ROLES: Final = ("zookeeper", "nimbus", "supervisor", "acker", "drpc", "worker")


class DevCluster:
    """ZooKeeper, nimbuses, supervisors and ackers as separate processes, on free ports of the loopback interface.

        with DevCluster(supervisors=2, slots=2) as cluster:
            cluster.client.submit("word-count", topology, {"topology.workers": 2})
            cluster.kill("worker")

    ``slots`` is per supervisor. Topologies use all ``drpc_servers``, and so does ``DRPCClient(conf=cluster.conf)``.
    ``conf`` overrides the defaults for every daemon, and ``supervisor_confs`` those of the first
    supervisors; files, environment and ports of an installed cluster are ignored.
    Entering waits until every daemon is ready and a nimbus leads (a few seconds).

    All files are in one temporary directory (``directory``). On exit, however the program ends, every process is
    killed, including workers and the workers of killed supervisors, and the directory is removed.

    ``start`` and entering raise UsageError (a wrong size or configuration, no Java) or UnavailableError (a daemon does
    not start), in one sentence. Not thread-safe.
    """

    def __init__(
        self,
        supervisors: int = 1,
        slots: int = 4,
        ackers: int = 1,
        nimbuses: int = 1,
        conf: Mapping[str, Any] | None = None,
        drpc_servers: int = 0,
        supervisor_confs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._size = Size(supervisors, slots, ackers, nimbuses, drpc_servers=drpc_servers)
        self._own_conf = dict(conf or {})
        self._supervisor_confs = [dict(one) for one in supervisor_confs]
        for own in (self._own_conf, *self._supervisor_confs):
            validate(own)
        self._ports = ReservedPorts()
        self._running: RunningCluster | None = None
        self._client: NimbusClient | None = None
        self._killed_workers: dict[int, LiveWorker] = {}
        self.directory = ""

    def start(self) -> None:
        """Start the cluster, like entering. Pair it with ``close``."""
        if self._running is not None:
            raise UsageError("this cluster runs already")
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="tupletree-cluster-"))
        try:
            plan = plan_with_ports(self.directory, self._size, self._ports.reserve(self._size.ports), self._own_conf)
            plan = with_supervisor_confs(plan, self._supervisor_confs)
            running = RunningCluster(plan, remove=True, durable=False)
            began = time.monotonic()
            running.start(START_TIMEOUT_S)
            self._running = running
            self._wait_complete(began + START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the cluster, like leaving. Idempotent."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._running is not None:
            self._running.close()
            self._running = None
        self._ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def conf(self) -> dict[str, Any]:
        """The complete configuration of a client of this cluster, including ZooKeeper's address."""
        return {**defaults(), **self._cluster().plan.conf}

    @property
    def client(self) -> NimbusClient:
        """A client of this cluster, closed with the cluster."""
        if self._client is None:
            self._client = NimbusClient(conf=self.conf)
        return self._client

    @property
    def processes(self) -> list[ProcessInfo]:
        """All live processes: ZooKeeper, nimbuses, supervisors, ackers, then workers by supervisor and port."""
        return self._cluster().processes()

    def kill(self, role: str, index: int = 0, signal: int = signal.SIGKILL) -> int:
        """Send a signal to one process and return its process id. After SIGKILL, waits until the process is gone.

        ``role`` is zookeeper, nimbus, supervisor, acker, drpc or worker. ``index`` counts the daemons of the role in
        the order of their first start, including dead daemons; it counts workers in the current order of ``processes``.
        Raises NotFoundError if the process is not running.
        """
        if role == "worker":
            return self._kill_worker(index, signal)
        if role == "zookeeper":
            server = self._cluster().zookeeper
            if index != 0 or server is None or not server.running:
                raise NotFoundError(f"zookeeper {index} does not run")
            pid = server.pid
            server.kill(signal)
            return pid
        daemon = self._daemon(role, index)
        if not daemon.running:
            raise NotFoundError(f"{role} {index} does not run")
        daemon.signal(signal)
        return daemon.pid

    def restart(self, role: str, index: int = 0) -> None:
        """Restart a daemon on its ports and data, after stopping it if it is running; waits until it is ready.

        Workers are started by their supervisor: after ``kill("worker", index)``, this waits until the slot has a new
        process; otherwise, it asks the supervisor to restart the worker at ``index``.
        Raises UnavailableError if the process does not start.
        """
        if role == "worker":
            self._restart_worker(index)
            return
        if role == "zookeeper":
            server = self._cluster().zookeeper
            assert server is not None
            server.restart()
            return
        daemon = self._daemon(role, index)
        daemon.stop(_STOP_TIMEOUT_S)
        daemon.launch()
        self._wait_ready(daemon)

    def _cluster(self) -> RunningCluster:
        if self._running is None:
            raise UsageError("this cluster does not run: use it as a context manager")
        return self._running

    def _daemon(self, role: str, index: int) -> DaemonProcess:
        if role not in _ROLES:
            raise UsageError(f"there is no role {role!r}; expected one of {', '.join(_ROLES)}")
        daemons = self._cluster().daemons_of(role)
        if not 0 <= index < len(daemons):
            raise NotFoundError(f"there is no {role} {index}: this cluster has {len(daemons)}")
        return daemons[index]

    def _wait_ready(self, daemon: DaemonProcess) -> None:
        def late() -> Exception:
            return UnavailableError(f"{daemon.plan.name} is not ready: {'; '.join(daemon.not_ready())}")

        wait_for(daemon.ready, time.monotonic() + START_TIMEOUT_S, late)

    def _wait_complete(self, deadline: float) -> None:
        """Wait until a nimbus leads and every supervisor and acker is registered."""
        seen = "no nimbus leads"

        def complete() -> bool:
            nonlocal seen
            try:
                reply = self.client.cluster()
            except UnavailableError as error:
                seen = str(error)
                return False
            seen = f"{len(reply.supervisors)} supervisors and {len(reply.ackers)} ackers are registered"
            return len(reply.supervisors) >= self._size.supervisors and len(reply.ackers) >= self._size.ackers

        wait_for(complete, deadline, lambda: UnavailableError(f"the cluster did not come up: {seen}"))

    def _kill_worker(self, index: int, number: int) -> int:
        workers = self._cluster().workers()
        if not 0 <= index < len(workers):
            raise NotFoundError(f"there is no worker {index}: {len(workers)} run")
        worker = workers[index]
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, number)
        if number == signal.SIGKILL:
            self._killed_workers[index] = worker
            deadline = time.monotonic() + _STOP_TIMEOUT_S
            wait_for(
                lambda: worker.pid not in self._worker_pids(),
                deadline,
                lambda: UnavailableError(f"worker {index} (process {worker.pid}) does not die"),
            )
        return worker.pid

    def _worker_pids(self) -> set[int]:
        return {worker.pid for worker in self._cluster().workers()}

    def _restart_worker(self, index: int) -> None:
        cluster = self._cluster()
        old = self._killed_workers.pop(index, None)
        if old is None:
            workers = cluster.workers()
            if not 0 <= index < len(workers):
                raise NotFoundError(f"there is no worker {index}: {len(workers)} run")
            old = workers[index]
            supervisor = next(one for one in cluster.daemons_of("supervisor") if old.port in one.plan.slots)
            try:
                restart_worker(cluster.address(supervisor), old.port, cluster.security)
            except grpc.RpcError as error:
                raise from_rpc_error(error, supervisor.plan.name) from error

        def restarted() -> bool:
            return any(worker.port == old.port and worker.pid != old.pid for worker in cluster.workers())

        deadline = time.monotonic() + START_TIMEOUT_S
        wait_for(restarted, deadline, lambda: UnavailableError(f"the worker on port {old.port} did not come back"))
