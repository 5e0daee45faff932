"""The configuration of a nimbus, parsed once."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class NimbusConfig:
    """The configuration values that a nimbus uses. Paths are absolute."""

    conf: Mapping[str, Any]  # the whole configuration; provides the defaults for topologies
    local_dir: str  # local.dir: parent directory of the blobs
    logs_dir: str  # logs.dir: <local_dir>/logs if unset
    logs_level: str  # logs.level
    bind_host: str  # bind.host: both ports listen on this address
    host: str  # advertise.host: the address that other machines use
    grpc_port: int  # nimbus.port; 0: any free port
    http_port: int  # nimbus.http.port; 0: any free port
    root: str  # zookeeper.root
    monitor_s: float  # nimbus.monitor.freq.secs: longest pause between two scheduling rounds
    task_timeout_s: float  # nimbus.task.timeout.secs: a worker without a heartbeat for this time is dead
    task_launch_s: float  # nimbus.task.launch.secs: grace period for a worker that was just assigned
    blob_delay_s: float  # nimbus.topology.blobstore.deletion.delay.ms, in seconds
    max_bundle_bytes: int  # nimbus.max.bundle.bytes
    audit_max_bytes: int  # nimbus.audit.log.max.bytes
    audit_backups: int  # nimbus.audit.log.backups

    @property
    def blob_directory(self) -> str:
        return os.path.join(self.local_dir, "nimbus", "blobs")

    @property
    def audit_path(self) -> str:
        return os.path.join(self.logs_dir, "audit.log")

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> NimbusConfig:
        """Return the nimbus's part of a loaded and validated configuration."""
        local_dir = os.path.abspath(os.path.expanduser(conf["local.dir"]))
        bind_host = conf["bind.host"]
        return cls(
            conf=conf,
            local_dir=local_dir,
            logs_dir=os.path.abspath(os.path.expanduser(conf["logs.dir"] or os.path.join(local_dir, "logs"))),
            logs_level=conf["logs.level"],
            bind_host=bind_host,
            host=conf["advertise.host"] or (socket.gethostname() if bind_host in _EVERYWHERE else bind_host),
            grpc_port=int(conf["nimbus.port"]),
            http_port=int(conf["nimbus.http.port"]),
            root=conf["zookeeper.root"],
            monitor_s=float(conf["nimbus.monitor.freq.secs"]),
            task_timeout_s=float(conf["nimbus.task.timeout.secs"]),
            task_launch_s=float(conf["nimbus.task.launch.secs"]),
            blob_delay_s=conf["nimbus.topology.blobstore.deletion.delay.ms"] / 1000,
            max_bundle_bytes=int(conf["nimbus.max.bundle.bytes"]),
            audit_max_bytes=int(conf["nimbus.audit.log.max.bytes"]),
            audit_backups=int(conf["nimbus.audit.log.backups"]),
        )
