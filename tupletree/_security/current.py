"""What this process does about security: one value from its configuration, made once and never changed.

A daemon's ``__main__`` makes it and calls ``use``; from then on every channel and server that the process makes has it.
A client has its own, because one process may talk to several clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tupletree._security.files import read_secret
from tupletree._security.rights import Kind
from tupletree._security.tls import Tls
from tupletree._security.tokens import Keyring, own_token
from tupletree.errors import ConfigError

LAUNCH_KEYS: Final = "security.keys"
"""Where a worker finds its keys in what its supervisor tells it. No key of the configuration: nobody can set it."""

_NOT_FOR_WORKERS: Final = frozenset(
    {"security.secret.file", "security.secret.previous.file", "security.token", "security.token.file"}
)


@dataclass(frozen=True)
class Security:
    """``tls`` None: plain connections. ``keyring`` None: no token is asked for. ``token`` None: none is shown."""

    tls: Tls | None = None
    keyring: Keyring | None = None
    token: Callable[[], str] | None = None
    admins: frozenset[str] = frozenset()

    @classmethod
    def of_daemon(cls, conf: Mapping[str, Any], role: str) -> Security:
        """For a nimbus, supervisor or acker. Raises ConfigError if a file is not as it must be."""
        tls = Tls.from_conf(conf)
        if tls is not None and not tls.can_serve:
            raise ConfigError("a daemon with tls.ca needs tls.cert and tls.key too: a certificate to show")
        if not conf.get("security.tokens"):
            return cls(tls)
        keyring = daemon_keyring(conf)
        admins = frozenset(conf.get("nimbus.admins") or ())
        return cls(tls, keyring, own_token(keyring, role, "daemon"), admins)

    @classmethod
    def of_worker(cls, conf: Mapping[str, Any], topology_id: str, worker_id: str) -> Security:
        """For a worker, out of what its supervisor told it."""
        tls = Tls.from_conf(conf)
        if not conf.get("security.tokens"):
            return cls(tls)
        keys = {kid: bytes.fromhex(key) for kid, key in dict(conf.get(LAUNCH_KEYS) or {}).items()}
        keyring = Keyring(str(conf["security.audience"]), keys=keys)
        return cls(tls, keyring, own_token(keyring, worker_id, "worker", topology_id))

    @classmethod
    def of_client(cls, conf: Mapping[str, Any]) -> Security:
        """For whoever asks the cluster: the token of ``security.token``, or of the file as it is at each call."""
        return cls(Tls.from_conf(conf), token=_client_token(conf))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call carries so that the other side knows who calls."""
        return () if self.token is None else (("authorization", f"Bearer {self.token()}"),)


OFF: Final = Security()
_current = OFF


def use(security: Security) -> None:
    """Have all channels and servers of this process made so from now on."""
    global _current  # noqa: PLW0603 - a process has one
    _current = security


def current() -> Security:
    """What ``use`` set; nothing at all in a process that set nothing."""
    return _current


def daemon_keyring(conf: Mapping[str, Any]) -> Keyring:
    """All keys of the cluster, by its secret. Raises ConfigError."""
    path, previous = conf.get("security.secret.file"), conf.get("security.secret.previous.file")
    if not path:
        raise ConfigError("security.tokens needs security.secret.file; 'tupletree certs DIR' makes one")
    keyring = Keyring(
        str(conf["security.audience"]),
        read_secret(path, "security.secret.file"),
        read_secret(previous, "security.secret.previous.file") if previous else None,
    )
    keyring.of_worker("")  # a secret that is too short is refused now
    return keyring


def worker_conf(conf: Mapping[str, Any], security: Security, topology_id: str) -> dict[str, Any]:
    """What a supervisor tells a worker: its configuration without the secrets of daemons, with the topology's keys."""
    told = {name: None if name in _NOT_FOR_WORKERS else value for name, value in conf.items()}
    if security.keyring is not None:
        told[LAUNCH_KEYS] = security.keyring.of_worker(topology_id)
    return told


def _client_token(conf: Mapping[str, Any]) -> Callable[[], str] | None:
    token, path = conf.get("security.token"), conf.get("security.token.file")
    if token:
        return lambda: str(token)
    if not path:
        return None
    found = str(Path(path).expanduser())
    read_secret(found, "security.token.file")
    return lambda: read_secret(found, "security.token.file").decode("ascii", "replace")


__all__ = ["LAUNCH_KEYS", "OFF", "Kind", "Security", "current", "daemon_keyring", "use", "worker_conf"]
