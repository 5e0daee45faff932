"""The security settings of this process: one immutable value, created from its configuration.

A daemon's ``__main__`` creates the settings and calls ``use``; from then on, every channel and server that the process
creates uses them. A client has its own settings, because one process can talk to several clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tupletree._security.files import read_secret
from tupletree._security.impersonation import HEADER, Proxy, encoded, proxies_of
from tupletree._security.oidc import OidcSettings
from tupletree._security.oidc_tokens import OidcVerifier
from tupletree._security.rights import Kind
from tupletree._security.tls import Tls
from tupletree._security.tokens import Keyring, own_token
from tupletree.errors import ConfigError

LAUNCH_KEYS: Final = "security.keys"
"""The entry with a worker's keys in the configuration from its supervisor. Not a key that a user can set."""

_NOT_FOR_WORKERS: Final = frozenset(
    {
        "security.secret.file",
        "security.secret.previous.file",
        "security.token",
        "security.token.file",
        "security.as.user",
    }
)


@dataclass(frozen=True)
class Security:
    """Security settings. ``tls`` None: no TLS. ``keyring`` None: no token required. ``token`` None: no token sent.

    ``oidc``: verifies the tokens of an issuer beside those of the cluster; None: there is no issuer. ``proxies``: the
    programs that may call in the names of users. ``as_user``: the user in whose name this client calls.
    """

    tls: Tls | None = None
    keyring: Keyring | None = None
    token: Callable[[], str] | None = None
    admins: frozenset[str] = frozenset()
    oidc: OidcVerifier | None = None
    proxies: Mapping[str, Proxy] = field(default_factory=dict)
    as_user: str | None = None

    @classmethod
    def of_daemon(cls, conf: Mapping[str, Any], role: str) -> Security:
        """Return the settings of a nimbus, supervisor or acker. Raises ConfigError if a file is invalid."""
        tls = Tls.from_conf(conf)
        if tls is not None and not tls.can_serve:
            raise ConfigError("a daemon with tls.ca also needs tls.cert and tls.key")
        oidc, proxies = OidcSettings.from_conf(conf), proxies_of(conf)
        if not conf.get("security.tokens"):
            return cls(tls)
        keyring = daemon_keyring(conf)
        admins = frozenset(conf.get("nimbus.admins") or ())
        verifier = None if oidc is None else OidcVerifier(oidc)
        return cls(tls, keyring, own_token(keyring, role, "daemon"), admins, verifier, proxies)

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
        token, as_user = _client_token(conf), conf.get("security.as.user")
        if as_user and token is None:
            raise ConfigError("security.as.user needs the token of a program, in security.token or security.token.file")
        return cls(Tls.from_conf(conf), token=token, as_user=as_user)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the gRPC metadata that identifies the caller."""
        if self.token is None:
            return ()
        shown = ("authorization", f"Bearer {self.token()}")
        return (shown,) if self.as_user is None else (shown, (HEADER, encoded(self.as_user)))


OFF: Final = Security()
_current = OFF


def use(security: Security) -> None:
    """Use these settings for all channels and servers that this process creates from now on."""
    global _current  # noqa: PLW0603 - a process has one
    _current = security


def current() -> Security:
    """Return the settings passed to ``use``; by default, settings without any security."""
    return _current


def towards_workers(role: str, topology_id: str) -> Security:
    """Return a daemon's settings for calls to workers, which accept only tokens of their topology."""
    if _current.keyring is None:
        return _current
    return replace(_current, token=own_token(_current.keyring, role, "worker", topology_id))


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


__all__ = [
    "LAUNCH_KEYS",
    "OFF",
    "Kind",
    "Security",
    "current",
    "daemon_keyring",
    "towards_workers",
    "use",
    "worker_conf",
]
