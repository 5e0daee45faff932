"""The supervisor's configuration, parsed once at startup."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._address import with_port
from tupletree._daemon.config import ANY_INTERFACE, DaemonConfig, common_fields
from tupletree.errors import ConfigError

from .capacity import Capacity
from .slot import Limits
from .users import Users


@dataclass(frozen=True)
class SupervisorConfig(DaemonConfig):
    """Every configuration value that a supervisor uses."""

    slots_ports: tuple[int, ...]  # supervisor.slots.ports; each 0 is replaced by a free port, once
    supervisor_id: str | None  # supervisor.id; None: generated once and kept in local_dir
    limits: Limits  # supervisor.worker.{start.timeout,timeout,shutdown.sleep}.secs
    monitor_s: float  # supervisor.monitor.frequency.secs: longest pause between two reads of the assignments
    seeds: tuple[str, ...]  # nimbus.seeds, each with a port
    worker_module: str  # supervisor.worker.module: run with `python -m`
    stop_workers: bool  # supervisor.stop.workers.on.shutdown
    rack: str  # supervisor.rack; "": none
    capacity: Capacity  # supervisor.cpu.capacity, supervisor.memory.capacity.mb, supervisor.resources
    memory_margin_mb: float  # supervisor.memory.limit.tolerance.margin.mb
    cgroup_use: str  # supervisor.cgroup.use
    cgroup_root: str | None  # supervisor.cgroup.root; None: the supervisor's own group
    bundle_delay_s: float  # supervisor.bundle.deletion.delay.secs: retention of an unneeded bundle
    logs_retention_s: float | None  # supervisor.logs.retention.secs: retention of logs of removed topologies
    output_max_bytes: int  # worker.log.max.bytes: size at which worker.out is rotated
    users: Users | None  # supervisor.run.worker.as.user and what belongs to it; None: workers run as this process does

    @property
    def local_address(self) -> str:
        """The host under which workers on this machine reach the supervisor."""
        return "127.0.0.1" if self.bind_host in ANY_INTERFACE else self.bind_host

    @property
    def audit_path(self) -> str:
        return os.path.join(self.logs_dir, "supervisor-audit.log")

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> SupervisorConfig:
        """Return the supervisor's part of a configuration. Raises ConfigError."""
        ports = tuple(int(port) for port in conf["supervisor.slots.ports"])
        fixed = [port for port in ports if port]
        if len(fixed) != len(set(fixed)):
            raise ConfigError(f"configuration key 'supervisor.slots.ports' names a port twice: {list(ports)}")
        return cls(
            **common_fields(conf, "supervisor"),
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
            rack=conf["supervisor.rack"] or "",
            capacity=Capacity.from_conf(conf),
            memory_margin_mb=float(conf["supervisor.memory.limit.tolerance.margin.mb"]),
            cgroup_use=conf["supervisor.cgroup.use"],
            cgroup_root=conf["supervisor.cgroup.root"],
            bundle_delay_s=float(conf["supervisor.bundle.deletion.delay.secs"]),
            logs_retention_s=conf["supervisor.logs.retention.secs"],
            output_max_bytes=int(conf["worker.log.max.bytes"]),
            users=Users.from_conf(conf),
        )
