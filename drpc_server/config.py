"""The DRPC server's configuration, parsed once at startup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._address import with_port
from tupletree._daemon.config import DaemonConfig, common_fields

from .function_rights import KEY, STRICT_KEY, FunctionRights, parse_function_rights


@dataclass(frozen=True)
class DrpcConfig(DaemonConfig):
    """Every configuration value that a DRPC server uses."""

    max_pending: int  # drpc.max.pending
    max_pending_bytes: int  # drpc.max.pending.bytes
    timeout_s: float  # drpc.request.timeout.secs
    functions: FunctionRights  # drpc.functions and drpc.functions.strict
    seeds: tuple[str, ...]  # nimbus.seeds with their ports: asked for the owners of topologies

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> DrpcConfig:
        """Return the DRPC server's part of a loaded and validated configuration."""
        return cls(
            **common_fields(conf, "drpc"),
            max_pending=conf["drpc.max.pending"],
            max_pending_bytes=conf["drpc.max.pending.bytes"],
            timeout_s=float(conf["drpc.request.timeout.secs"]),
            functions=parse_function_rights(conf[KEY] or {}, bool(conf[STRICT_KEY])),
            seeds=tuple(with_port(seed, int(conf["nimbus.port"])) for seed in conf["nimbus.seeds"] or ()),
        )
