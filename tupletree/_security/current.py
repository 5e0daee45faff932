"""The security settings of this process: one immutable value, created from its configuration.

A daemon's ``__main__`` creates the settings and calls ``use``; from then on, every channel and server that the process
creates uses them. A client has its own settings, because one process can talk to several clusters.
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
"""The entry with a worker's keys in the configuration from its supervisor. Not a key that a user can set."""

_NOT_FOR_WORKERS: Final = frozenset(
    {"security.secret.file", "security.secret.previous.file", "security.token", "security.token.file"}
)


@dataclass(frozen=True)
class Security:
    """Security settings. ``tls`` None: no TLS. ``keyring`` None: no token required. ``token`` None: no token sent."""

    tls: Tls | None = None
    keyring: Keyring | None = None
    token: Callable[[], str] | None = None
    admins: frozenset[str] = frozenset()

    @classmethod
    def of_daemon(cls, conf: Mapping[str, Any], role: str) -> Security:
        """Return the settings of a nimbus, supervisor or acker. Raises ConfigError if a file is invalid."""
        tls = Tls.from_conf(conf)
        if tls is not None and not tls.can_serve:
            raise ConfigError("a daemon with tls.ca also needs tls.cert and tls.key")
        if not conf.get("security.tokens"):
            return cls(tls)
        keyring = daemon_keyring(conf)
        admins = frozenset(conf.get("nimbus.admins") or ())
        return cls(tls, keyring, own_token(keyring, role, "daemon"), admins)

    @classmethod
    def of_worker(cls, conf: Mapping[str, Any], topology_id: str, worker_id: str) -> Security:
        """Return the settings of a worker, from the configuration sent by its supervisor."""
        tls = Tls.from_conf(conf)
        if not conf.get("security.tokens"):
            return cls(tls)
        keys = {kid: bytes.fromhex(key) for kid, key in dict(conf.get(LAUNCH_KEYS) or {}).items()}
        keyring = Keyring(str(conf["security.audience"]), keys=keys)
        return cls(tls, keyring, own_token(keyring, worker_id, "worker", topology_id))

    @classmethod
    def of_client(cls, conf: Mapping[str, Any]) -> Security:
        """Return the settings of a client. Its token is ``security.token``, or read from the file at each call."""
        return cls(Tls.from_conf(conf), token=_client_token(conf))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the gRPC metadata that identifies the caller."""
        return () if self.token is None else (("authorization", f"Bearer {self.token()}"),)


OFF: Final = Security()
_current = OFF


def use(security: Security) -> None:
    """Use these settings for all channels and servers that this process creates from now on."""
    global _current  # noqa: PLW0603 - a process has one
    _current = security


def current() -> Security:
    """Return the settings passed to ``use``; by default, settings without any security."""
    return _current


def daemon_keyring(conf: Mapping[str, Any]) -> Keyring:
    """Return a keyring with all keys of the cluster, derived from its secret. Raises ConfigError."""
    path, previous = conf.get("security.secret.file"), conf.get("security.secret.previous.file")
    if not path:
        raise ConfigError("security.tokens needs security.secret.file; create it with 'tupletree certs DIR'")
    keyring = Keyring(
        str(conf["security.audience"]),
        read_secret(path, "security.secret.file"),
        read_secret(previous, "security.secret.previous.file") if previous else None,
    )
    keyring.of_worker("")  # refuses a secret that is too short
    return keyring


def worker_conf(conf: Mapping[str, Any], security: Security, topology_id: str) -> dict[str, Any]:
    """Return a worker's configuration: without the daemons' secrets, with the topology's keys."""
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
