"""Finding the worker processes of a cluster on this machine.

The process table lists the live workers, and each worker's launch file identifies the worker, even while its supervisor
is down. Only the supervisors know the HTTP ports of workers, which ListSlots returns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from tupletree._devcluster.guard import command_lines_of
from tupletree._rpc.channels import channel
from tupletree._security.current import OFF, Security
from tupletree.v1 import supervisor_pb2, supervisor_pb2_grpc

_ASK_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """One worker process."""

    pid: int
    port: int
    topology_id: str
    worker_id: str
    log_path: str


def live_workers(directory: str) -> list[LiveWorker]:
    """Return the live workers below a supervisor's (or a whole cluster's) directory, by port and process id."""
    found = []
    for pid, arguments in command_lines_of(directory).items():
        if "tupletree.worker" not in arguments or "--launch" not in arguments[:-1]:
            continue
        path = arguments[arguments.index("--launch") + 1]
        try:
            with open(path, encoding="utf-8") as file:
                launch: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            continue  # the launch file is being removed
        log_path = os.path.join(launch["log_dir"], "worker.log")
        found.append(LiveWorker(pid, int(launch["port"]), launch["topology_id"], launch["worker_id"], log_path))
    return sorted(found, key=lambda worker: (worker.port, worker.pid))


def http_ports(supervisor_addresses: Iterable[str], security: Security = OFF) -> dict[int, int]:
    """Return the HTTP ports of workers by process id; without workers whose supervisor does not answer."""
    ports: dict[int, int] = {}
    for address in supervisor_addresses:
        with channel(address, security) as peer:
            stub = supervisor_pb2_grpc.SupervisorStub(peer)
            try:
                reply = stub.ListSlots(supervisor_pb2.ListSlotsRequest(), timeout=_ASK_TIMEOUT_S)
            except grpc.RpcError:
                continue
            ports.update({slot.pid: slot.http_port for slot in reply.slots if slot.pid})
    return ports


def restart_worker(supervisor_address: str, port: int, security: Security = OFF) -> None:
    """Ask a supervisor to restart the worker on ``port``. Raises grpc.RpcError."""
    with channel(supervisor_address, security) as peer:
        stub = supervisor_pb2_grpc.SupervisorStub(peer)
        stub.RestartWorker(supervisor_pb2.RestartWorkerRequest(epoch=0, port=port), timeout=10)
