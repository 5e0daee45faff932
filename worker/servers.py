"""The gRPC and HTTP servers of a worker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tupletree._daemon.health import Readiness
from tupletree._daemon.http import HttpServer
from tupletree._rpc.server import RpcServer, start_server
from tupletree._security.current import current
from tupletree._wire.names import topology_name
from tupletree.v1 import worker_pb2_grpc

from .checkpoint.direct_questions import DirectQuestions
from .engine import Engine
from .launch_file import LaunchFile
from .reporting.metrics import About, Links, registry
from .service import WorkerService


@dataclass(frozen=True)
class Parts:
    """The parts of a worker that its servers show. ``links``: to other processes, by kind."""

    service: WorkerService
    engine: Engine
    readiness: Readiness
    links: Mapping[str, Links]


async def listen(launch: LaunchFile, parts: Parts, is_current: Callable[[], bool]) -> tuple[RpcServer, HttpServer, int]:
    """Start both servers; return them and the HTTP port. Raises UsageError if a port is in use.

    ``is_current``: returns False while the worker may have been replaced.
    """
    add = functools.partial(worker_pb2_grpc.add_WorkerServicer_to_server, parts.service)
    rpc = await start_server([add], launch.bind_host, launch.port, parts.readiness)
    about = About(topology_name(launch.topology_id), launch.topology_id, launch.worker_id, launch.slot)
    found = registry(parts.engine, about, parts.readiness, parts.links, parts.service.state_sizes)
    reads, keyring = parts.service.state_reads, current().keyring
    questions = DirectQuestions(reads, launch.topology_id, launch.worker_id, keyring, is_current)
    http = HttpServer(parts.readiness, found, questions.routes)
    return rpc, http, await http.start(launch.bind_host, launch.http_port)
