"""Certificates, a secret, and tokens of every kind of caller, made for one test."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from tupletree._security.authority import Authority
from tupletree._security.current import Security
from tupletree._security.files import write_private
from tupletree._security.tls import Tls
from tupletree._security.tokens import Keyring

P = ParamSpec("P")


@dataclass(frozen=True)
class Secured:
    """What ``tupletree certs`` makes, in ``directory``."""

    directory: Path
    keyring: Keyring

    @classmethod
    def make(cls, directory: Path) -> Secured:
        Authority(directory).prepare([], 90, False)
        secret = secrets.token_hex(32).encode()
        write_private(directory / "secret", secret)
        return cls(directory, Keyring("tupletree", secret))

    @property
    def conf(self) -> dict[str, Any]:
        """For a daemon."""
        tls = {f"tls.{name}": str(self.directory / file) for name, file in _CLUSTER.items()}
        return {**tls, "security.tokens": True, "security.secret.file": str(self.directory / "secret")}

    def tls(self, name: str | None = "cluster", **settings: Any) -> Tls:
        """The authority, and this certificate of it."""
        ca, files = str(self.directory / "ca.crt"), {}
        if name is not None:
            files = {"cert": str(self.directory / f"{name}.crt"), "key": str(self.directory / f"{name}.key")}
        return Tls(ca, **files, **settings)

    def user(self, name: str, *roles: str) -> str:
        """A user's token."""
        return self.keyring.issue(name, "user", roles=frozenset(roles))

    def client(self, token: str | None = None) -> Security:
        """What a client has that shows this token."""
        return Security(self.tls("client"), token=None if token is None else lambda: token)


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*arguments, **named))

    return run


_CLUSTER = {"ca": "ca.crt", "cert": "cluster.crt", "key": "cluster.key"}
