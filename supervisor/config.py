"""The supervisor's configuration, parsed once at startup."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._address import with_port
from tupletree.errors import ConfigError

from .slot import Limits

_ANY_INTERFACE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class SupervisorConfig:
    """Every configuration value that a supervisor uses. Paths are absolute."""

    conf: Mapping[str, Any]  # the whole configuration, merged with the topology's for each worker
    local_dir: str  # local.dir: state that survives a restart
    logs_dir: str  # logs.dir: <local_dir>/logs if unset
    logs_level: str  # logs.level
    bind_host: str  # bind.host: address of every listener
    host: str  # advertise.host: the name under which other machines reach this one
    grpc_port: int  # supervisor.port; 0: any free port, kept across restarts if possible
    http_port: int  # supervisor.http.port; 0: any free port
    slots_ports: tuple[int, ...]  # supervisor.slots.ports; each 0 is replaced by a free port, once
    supervisor_id: str | None  # supervisor.id; None: generated once and kept in local_dir
    limits: Limits  # supervisor.worker.{start.timeout,timeout,shutdown.sleep}.secs
    monitor_s: float  # supervisor.monitor.frequency.secs: longest pause between two reads of the assignments
    seeds: tuple[str, ...]  # nimbus.seeds, each with a port
    worker_module: str  # supervisor.worker.module: run with `python -m`
    stop_workers: bool  # supervisor.stop.workers.on.shutdown
    bundle_delay_s: float  # supervisor.bundle.deletion.delay.secs: retention of an unneeded bundle
    logs_retention_s: float | None  # supervisor.logs.retention.secs: retention of logs of removed topologies
    output_max_bytes: int  # worker.log.max.bytes: size at which worker.out is rotated
    audit_max_bytes: int  # nimbus.audit.log.max.bytes, which applies to every audit log
    audit_backups: int  # nimbus.audit.log.backups

    @property
    def local_address(self) -> str:
        """The host under which workers on this machine reach the supervisor."""
        return "127.0.0.1" if self.bind_host in _ANY_INTERFACE else self.bind_host

    @property
    def audit_path(self) -> str:
        return os.path.join(self.logs_dir, "supervisor-audit.log")

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> SupervisorConfig:
        """Return the supervisor's part of a configuration. Raises ConfigError if a slot port occurs twice."""
        local_dir = os.path.abspath(os.path.expanduser(conf["local.dir"]))
        bind_host = conf["bind.host"]
        ports = tuple(int(port) for port in conf["supervisor.slots.ports"])
        fixed = [port for port in ports if port]
        if len(fixed) != len(set(fixed)):
            raise ConfigError(f"configuration key 'supervisor.slots.ports' names a port twice: {list(ports)}")
        return cls(
            conf=conf,
            local_dir=local_dir,
            logs_dir=os.path.abspath(os.path.expanduser(conf["logs.dir"] or os.path.join(local_dir, "logs"))),
            logs_level=conf["logs.level"],
            bind_host=bind_host,
            host=conf["advertise.host"] or (socket.gethostname() if bind_host in _ANY_INTERFACE else bind_host),
            grpc_port=int(conf["supervisor.port"]),
            http_port=int(conf["supervisor.http.port"]),
            slots_ports=ports,
            supervisor_id=conf["supervisor.id"],
            limits=Limits(
                start_timeout_s=float(conf["supervisor.worker.start.timeout.secs"]),
                silence_timeout_s=float(conf["supervisor.worker.timeout.secs"]),
                shutdown_s=float(conf["supervisor.worker.shutdown.sleep.secs"]),
            ),
            monitor_s=float(conf["supervisor.monitor.frequency.secs"]),
            seeds=tuple(with_port(seed, int(conf["nimbus.port"])) for seed in conf["nimbus.seeds"]),
            worker_module=conf["supervisor.worker.module"],
            stop_workers=bool(conf["supervisor.stop.workers.on.shutdown"]),
            bundle_delay_s=float(conf["supervisor.bundle.deletion.delay.secs"]),
            logs_retention_s=conf["supervisor.logs.retention.secs"],
            output_max_bytes=int(conf["worker.log.max.bytes"]),
            audit_max_bytes=int(conf["nimbus.audit.log.max.bytes"]),
            audit_backups=int(conf["nimbus.audit.log.backups"]),
        )
