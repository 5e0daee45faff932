"""The configuration of a nimbus, parsed once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._daemon.config import DaemonConfig, common_fields


@dataclass(frozen=True)
class NimbusConfig(DaemonConfig):
    """Every configuration value that a nimbus uses."""

    monitor_s: float  # nimbus.monitor.freq.secs: longest pause between two scheduling rounds
    task_timeout_s: float  # nimbus.task.timeout.secs: a worker without a heartbeat for this time is dead
    task_launch_s: float  # nimbus.task.launch.secs: grace period for a worker that was just assigned
    blob_delay_s: float  # nimbus.topology.blobstore.deletion.delay.ms, in seconds
    max_bundle_bytes: int  # nimbus.max.bundle.bytes

    @property
    def blob_directory(self) -> str:
        return os.path.join(self.local_dir, "nimbus", "blobs")

    @property
    def audit_path(self) -> str:
        return os.path.join(self.logs_dir, "audit.log")

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> NimbusConfig:
        """Return the nimbus's part of a loaded and validated configuration."""
        return cls(
            **common_fields(conf, "nimbus"),
            monitor_s=float(conf["nimbus.monitor.freq.secs"]),
            task_timeout_s=float(conf["nimbus.task.timeout.secs"]),
            task_launch_s=float(conf["nimbus.task.launch.secs"]),
            blob_delay_s=conf["nimbus.topology.blobstore.deletion.delay.ms"] / 1000,
            max_bundle_bytes=int(conf["nimbus.max.bundle.bytes"]),
        )
