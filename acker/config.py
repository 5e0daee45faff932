"""The acker's configuration, parsed once at startup."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class AckerConfig:
    """One field per configuration key that the acker reads, with the key's default."""

    grpc_port: int = 6640  # acker.port; 0: any free port
    http_port: int = 6641  # acker.http.port; 0: any free port
    max_pending: int = 20_000_000  # acker.max.pending: ledger entries beyond which new trees wait
    drain_timeout_s: float | None = None  # acker.drain.timeout.secs; None: the longest message timeout served
    bind_host: str = "127.0.0.1"  # bind.host: where both ports listen
    advertise_host: str = "127.0.0.1"  # advertise.host: the name under which other machines reach this one
    log_dir: str | None = None  # logs.dir; None: stderr
    log_level: str = "INFO"  # logs.level
    zookeeper_root: str = "/tupletree"  # zookeeper.root

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> AckerConfig:
        """Return the acker's part of a loaded and validated configuration."""
        bind_host = conf["bind.host"]
        drain_timeout_s = conf["acker.drain.timeout.secs"]
        return cls(
            grpc_port=conf["acker.port"],
            http_port=conf["acker.http.port"],
            max_pending=conf["acker.max.pending"],
            drain_timeout_s=None if drain_timeout_s is None else float(drain_timeout_s),
            bind_host=bind_host,
            advertise_host=conf["advertise.host"] or (socket.gethostname() if bind_host in _EVERYWHERE else bind_host),
            log_dir=conf["logs.dir"] or str(Path(conf["local.dir"]) / "logs"),
            log_level=conf["logs.level"],
            zookeeper_root=conf["zookeeper.root"],
        )
