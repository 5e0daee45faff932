"""The processes of a planned cluster, started and ended together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tupletree._address import address_of
from tupletree._coord.tls import tls_of
from tupletree._devcluster.daemon import DaemonProcess
from tupletree._devcluster.guard import Guard, end_all
from tupletree._devcluster.plan import ZOOKEEPER, ClusterPlan
from tupletree._devcluster.workers import LiveWorker, http_ports, live_workers
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._security.current import Security
from tupletree.errors import UnavailableError

_POLL_S: Final = 0.02
RunOn = Callable[[str, Callable[[], Any]], Any]


def run_here(name: str, call: Callable[[], Any]) -> Any:
    """Return ``call()``: every process runs on this machine itself."""
    return call()


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One live process of a cluster. A port is 0 if there is none or it is not known yet."""

    role: str
    name: str
    pid: int
    http_port: int
    grpc_port: int
    log_path: str
    topology_id: str = ""
    worker_id: str = ""


class RunningCluster:
    """Starts the processes of a plan. ``remove``: remove the directory when the cluster ends.

    ``run(name, call)`` calls a function on the machine of a daemon, or of ZooKeeper. Whatever happens to this process,
    the guard ends all others, including workers.
    """

    def __init__(self, plan: ClusterPlan, *, remove: bool, durable: bool, run: RunOn = run_here) -> None:
        self.plan = plan
        self.run = run
        self.zookeeper: EmbeddedZooKeeper | None = None
        if plan.zookeeper_port is not None:
            self.zookeeper = EmbeddedZooKeeper(
                plan.zookeeper_directory,
                plan.zookeeper_port,
                plan.log_directory,
                host=plan.host,
                durable=durable,
                tls=tls_of(plan.conf),
            )
        self.security = Security.of_client(plan.conf)
        self.daemons = [DaemonProcess(daemon, self.security.tls, partial(run, daemon.name)) for daemon in plan.daemons]
        self._guard: Guard | None = None
        self._remove = remove

    def start(self, timeout_s: float) -> None:
        """Start all processes at once and wait until each reports ready.

        Raises UsageError or UnavailableError, in one sentence that names the failed process, after ending the rest.
        """
        self._guard = Guard(self.plan.directory, remove=self._remove)
        try:
            deadline = time.monotonic() + timeout_s
            self.launch_zookeeper()
            for daemon in self.daemons:
                daemon.launch()
            if self.zookeeper is not None:
                self.zookeeper.wait_ready(timeout_s)
            for daemon in self.daemons:
                wait_for(daemon.ready, deadline, lambda daemon=daemon: _late(daemon, timeout_s))  # type: ignore[misc]
        except BaseException:
            self.close()
            raise

    def launch_zookeeper(self) -> None:
        """Start ZooKeeper on its machine, without waiting, if it is part of the plan."""
        if self.zookeeper is not None:
            self.run(ZOOKEEPER, self.zookeeper.launch)

    def daemons_of(self, role: str) -> list[DaemonProcess]:
        return [daemon for daemon in self.daemons if daemon.plan.role == role]

    def address(self, daemon: DaemonProcess) -> str:
        return address_of(daemon.plan.host, daemon.plan.grpc_port)

    def workers(self) -> list[LiveWorker]:
        """Return the live workers, by supervisor and port."""
        return [worker for daemon in self.daemons_of("supervisor") for worker in live_workers(daemon.plan.directory)]

    def processes(self) -> list[ProcessInfo]:
        """Return all live processes: ZooKeeper, nimbuses, supervisors, ackers, workers."""
        found = []
        server = self.zookeeper
        if server is not None and server.running:
            found.append(ProcessInfo("zookeeper", "zookeeper", server.pid, 0, server.port, server.log_path))
        for daemon in self.daemons:
            plan = daemon.plan
            if daemon.running:
                found.append(
                    ProcessInfo(plan.role, plan.name, daemon.pid, plan.http_port, plan.grpc_port, plan.log_path)
                )
        return found + self._worker_infos()

    def _worker_infos(self) -> list[ProcessInfo]:
        workers = self.workers()
        if not workers:
            return []
        addresses = [self.address(daemon) for daemon in self.daemons_of("supervisor") if daemon.running]
        known = http_ports(addresses, self.security)
        return [
            ProcessInfo(
                "worker",
                f"worker-{worker.port}",
                worker.pid,
                known.get(worker.pid, 0),
                worker.port,
                worker.log_path,
                worker.topology_id,
                worker.worker_id,
            )
            for worker in workers
        ]

    def close(self) -> None:
        """Kill the remaining processes, and remove the directory if requested. Idempotent."""
        end_all(self.plan.directory)
        if self.zookeeper is not None:
            self.zookeeper.stop()
        for daemon in self.daemons:
            if daemon.process is not None:
                daemon.process.wait()
        if self._guard is not None:
            self._guard.close()


def _late(daemon: DaemonProcess, timeout_s: float) -> UnavailableError:
    reasons = "; ".join(daemon.not_ready()) or "it just became ready"
    log = daemon.plan.log_path
    where = log if os.path.exists(log) else daemon.plan.output_path
    return UnavailableError(f"{daemon.plan.name} is not ready after {timeout_s:g} s: {reasons} (see {where})")


def wait_for(condition: Callable[[], bool], deadline: float, late: Callable[[], Exception]) -> None:
    """Wait until ``condition()`` is true. After ``deadline`` on the monotonic clock, raise the result of ``late()``."""
    while not condition():
        if time.monotonic() > deadline:
            raise late()
        time.sleep(_POLL_S)
