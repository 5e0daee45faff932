"""The DRPC server's configuration, parsed once at startup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._daemon.config import DaemonConfig, common_fields


@dataclass(frozen=True)
class DrpcConfig(DaemonConfig):
    """Every configuration value that a DRPC server uses."""

    max_pending: int  # drpc.max.pending
    timeout_s: float  # drpc.request.timeout.secs

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> DrpcConfig:
        """Return the DRPC server's part of a loaded and validated configuration."""
        return cls(
            **common_fields(conf, "drpc"),
            max_pending=conf["drpc.max.pending"],
            timeout_s=float(conf["drpc.request.timeout.secs"]),
        )
