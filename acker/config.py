"""The acker's configuration, parsed once at startup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._daemon.config import DaemonConfig, common_fields

from .namespaces import KEY, Namespace, parse_namespaces


@dataclass(frozen=True)
class AckerConfig(DaemonConfig):
    """Every configuration value that an acker uses."""

    max_pending: int  # acker.max.pending: ledger entries beyond which new trees wait
    namespaces: Mapping[str, Namespace]  # acker.trees.namespaces
    drain_timeout_s: float | None  # acker.drain.timeout.secs; None: the longest message timeout served

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> AckerConfig:
        """Return the acker's part of a loaded and validated configuration."""
        drain_timeout_s = conf["acker.drain.timeout.secs"]
        return cls(
            **common_fields(conf, "acker"),
            max_pending=conf["acker.max.pending"],
            namespaces=parse_namespaces(conf[KEY] or {}),
            drain_timeout_s=None if drain_timeout_s is None else float(drain_timeout_s),
        )
