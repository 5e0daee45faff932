"""The configuration that nimbus, supervisor and acker have in common, parsed once at startup."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ANY_INTERFACE: Final = ("0.0.0.0", "::")


@dataclass(frozen=True)
class DaemonConfig:
    """The configuration values of every daemon. Paths are absolute; ``~`` is the home directory."""

    conf: Mapping[str, Any]  # the whole configuration, from which topologies and workers take their defaults
    local_dir: str  # local.dir: state that survives a restart
    logs_dir: str  # logs.dir: <local_dir>/logs if unset
    logs_level: str  # logs.level
    bind_host: str  # bind.host: address of every listener
    host: str  # advertise.host: the name under which other machines reach this one
    grpc_port: int  # <role>.port; 0: any free port
    http_port: int  # <role>.http.port; 0: any free port
    root: str  # zookeeper.root
    audit_max_bytes: int  # nimbus.audit.log.max.bytes, which applies to every audit log
    audit_backups: int  # nimbus.audit.log.backups


def common_fields(conf: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the fields of a role's DaemonConfig from a loaded and validated configuration."""
    local_dir = _absolute(conf["local.dir"])
    bind_host = conf["bind.host"]
    return {
        "conf": conf,
        "local_dir": local_dir,
        "logs_dir": _absolute(conf["logs.dir"] or os.path.join(local_dir, "logs")),
        "logs_level": conf["logs.level"],
        "bind_host": bind_host,
        "host": advertised_host(conf),
        "grpc_port": int(conf[f"{role}.port"]),
        "http_port": int(conf[f"{role}.http.port"]),
        "root": conf["zookeeper.root"],
        "audit_max_bytes": int(conf["nimbus.audit.log.max.bytes"]),
        "audit_backups": int(conf["nimbus.audit.log.backups"]),
    }


def advertised_host(conf: Mapping[str, Any]) -> str:
    """Return the name under which other machines reach this machine's daemons."""
    bind_host = conf["bind.host"]
    return str(conf["advertise.host"] or (socket.gethostname() if bind_host in ANY_INTERFACE else bind_host))


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
