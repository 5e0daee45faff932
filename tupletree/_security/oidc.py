"""Users of an OpenID Connect issuer: settings, and the caller whom a verified token states. Pure.

    token's claims                              caller
    security.oidc.user.claim   "alice"          user 'alice'
    security.oidc.roles.claim  ["ops", "all"]   the roles that security.oidc.roles gives to "ops" and to "all"

Such a token states users only: never a daemon or a worker.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tupletree._security.exposure import is_loopback
from tupletree._security.rights import ROLES, Principal
from tupletree.errors import ConfigError, UnauthenticatedError

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Asymmetric ones alone: with a shared key, whoever verifies tokens could make them."""

KEY_TYPES: Final = ("RSA", "EC", "OKP")
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The issuer, and the meaning of its claims. ``ca``: path of its authorities; None: those of the system."""

    issuer: str
    audience: str
    user_claim: str = "sub"
    roles_claim: str = "groups"
    roles: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ca: str | None = None

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> OidcSettings | None:
        """Return the settings; None without ``security.oidc.issuer``. Raises ConfigError."""
        issuer = conf.get("security.oidc.issuer")
        if not issuer:
            return None
        if not conf.get("security.tokens"):
            raise ConfigError("security.oidc.issuer needs security.tokens: true; without it, no call requires a token")
        if not conf.get("security.oidc.audience"):
            raise ConfigError(
                "security.oidc.issuer needs security.oidc.audience: tokens for other services would count here"
            )
        check_address(str(issuer), "security.oidc.issuer")
        return cls(
            issuer=str(issuer),
            audience=str(conf["security.oidc.audience"]),
            user_claim=str(conf["security.oidc.user.claim"]),
            roles_claim=str(conf["security.oidc.roles.claim"]),
            roles={group: _roles(group, text) for group, text in dict(conf["security.oidc.roles"]).items()},
            ca=conf.get("security.oidc.ca"),
        )

    def caller(self, claims: Mapping[str, Any]) -> Principal:
        """Return the caller of verified claims. Raises UnauthenticatedError if they name no user."""
        name = claim(claims, self.user_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise UnauthenticatedError(f"the token names no user: its claim {self.user_claim} is no name")
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise UnauthenticatedError("the issuer has not verified the address in the token's claim email")
        roles = (self.roles.get(group, frozenset()) for group in _groups(claim(claims, self.roles_claim)))
        return Principal(name, "user", frozenset().union(*roles))


def check_address(address: str, what: str) -> None:
    """Raise ConfigError unless keys from this address can be trusted: by https, or from this machine."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http"):
        raise ConfigError(f"{what} is {address!r}, expected an address such as https://login.example.com/realms/main")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(f"{what} is {address!r}: keys that come without TLS could be anybody's; use https")


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim of that name, or the one inside of others, as in ``realm_access.roles``; None if absent."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _groups(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value, *value.split()]  # as in "scope"
    return [group for group in value if isinstance(group, str)] if isinstance(value, list) else []


def _roles(group: str, text: str) -> frozenset[str]:
    roles = frozenset(text.split())
    if not roles or not roles <= set(ROLES):
        raise ConfigError(
            f"security.oidc.roles gives {text!r} to {group!r}, expected one or several of {', '.join(ROLES)}, with "
            "spaces between"
        )
    return roles
