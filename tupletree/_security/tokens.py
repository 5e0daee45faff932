"""Tokens: signed statements of a caller's identity.

A token is a JSON Web Token, signed with HMAC-SHA256 and nothing else. Its ``kid`` names the key, and the key limits
the statements of the token:

    kid             key                                   held by                       tokens say
    cluster         HMAC(secret, "cluster")               nimbus, supervisors, ackers   user and daemon, any role
    metrics         HMAC(secret, "metrics")               the same, and every worker    user, the role metrics
    topology:<id>   HMAC(secret, "topology:<id>")         the same, and its workers     worker of that topology

A worker can thus verify the workers it talks to and sign for itself, but cannot sign for any other topology: it never
receives the secret. All keys are derived from one secret. A topology id is never reused, so the use of its key ends
with the topology.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tupletree._extras import SERVER, imported
from tupletree._security.files import MIN_SECRET_BYTES
from tupletree._security.rights import METRICS, ROLES, Kind, Principal
from tupletree.errors import ConfigError, UnauthenticatedError

ALGORITHM: Final = "HS256"
CLUSTER: Final = "cluster"
METRICS_KEY: Final = "metrics"
OWN_TOKEN_S: Final = 3600.0
_MAX_KNOWN: Final = 4096
_MAX_BYTES: Final = 8192
_LEEWAY_S: Final = 30.0


def topology_key(topology_id: str) -> str:
    """Return the kid of a topology's key."""
    return f"topology:{topology_id}"


def derive(secret: bytes, kid: str) -> bytes:
    """Derive the key with that kid. Raises ConfigError if the secret is too short."""
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(
            f"the secret of security.secret.file has {len(secret)} bytes, expected at least {MIN_SECRET_BYTES}"
        )
    return hmac.digest(secret, f"tupletree {kid}".encode(), "sha256")


@dataclass
class Keyring:
    """The keys that a process holds: all keys, through the secret, or only given keys.

    ``previous``: the previous secret during a rotation. Tokens signed with it are accepted, but no longer issued.
    """

    audience: str
    secret: bytes | None = field(default=None, repr=False)
    previous: bytes | None = field(default=None, repr=False)
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    _known: dict[str, tuple[Principal, float]] = field(default_factory=dict, repr=False)

    def issue(
        self,
        name: str,
        kind: Kind,
        *,
        roles: frozenset[str] = frozenset(),
        topology: str = "",
        lifetime_s: float = OWN_TOKEN_S,
        now_unix_s: float | None = None,
    ) -> str:
        """Return a new token. Raises ConfigError if this process holds no key for the token."""
        jwt = _jwt()
        kid = _kid(kind, roles, topology)
        issued_s = int(time.time() if now_unix_s is None else now_unix_s)
        claims = {"sub": name, "kind": kind, "aud": self.audience, "iat": issued_s, "exp": int(issued_s + lifetime_s)}
        if roles:
            claims["roles"] = sorted(roles)
        if topology:
            claims["topology"] = topology
        return str(jwt.encode(claims, self.signing_key(kid), ALGORITHM, headers={"kid": kid}))

    def signing_key(self, kid: str) -> bytes:
        """Return the key with that kid that signs. Raises ConfigError if this process does not hold it."""
        candidates = self.keys_of(kid)
        if not candidates:
            raise ConfigError("signing a token requires the cluster's secret (security.secret.file)")
        return candidates[0]

    def verify(self, token: str) -> Principal:
        """Return the bearer of a token. Raises UnauthenticatedError, disclosing no more than necessary."""
        known = self._known.get(token)
        if known is not None and time.time() < known[1]:
            return known[0]
        self._known.pop(token, None)
        if len(token) > _MAX_BYTES:
            raise UnauthenticatedError("the token is too long")
        principal, expires_s = self._decoded(token)
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[token] = (principal, expires_s)
        return principal

    def _decoded(self, token: str) -> tuple[Principal, float]:
        jwt = _jwt()
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except (jwt.InvalidTokenError, UnicodeEncodeError):
            raise UnauthenticatedError("the token is malformed") from None
        # No key has an unprintable name; an unpaired surrogate, valid in JSON, could not even be encoded.
        candidates = self.keys_of(kid) if isinstance(kid, str) and kid.isprintable() else []
        if not candidates:
            raise UnauthenticatedError("the token is signed with a key that is not accepted here")
        for number, key in enumerate(candidates, start=1):
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=[ALGORITHM],
                    audience=self.audience,
                    leeway=_LEEWAY_S,
                    options={"require": ["sub", "aud", "iat", "exp"], "strict_aud": True},
                )
            except jwt.InvalidSignatureError:
                if number == len(candidates):
                    raise UnauthenticatedError("the token is not signed with this cluster's secret") from None
            except jwt.ExpiredSignatureError:
                raise UnauthenticatedError("the token has expired; get a new one") from None
            except jwt.InvalidAudienceError:
                raise UnauthenticatedError("the token is for another cluster (security.audience)") from None
            except jwt.InvalidTokenError:
                raise UnauthenticatedError("the token is not valid") from None
            else:
                return _principal(claims, str(kid)), float(claims["exp"])
        raise AssertionError("unreachable: the last key decides")

    def keys_of(self, kid: str) -> list[bytes]:
        """Return the keys with that kid, the signing key first."""
        if self.secret is None:
            return [self.keys[kid]] if kid in self.keys else []
        if kid not in (CLUSTER, METRICS_KEY) and not kid.startswith("topology:"):
            return []
        return [derive(secret, kid) for secret in (self.secret, self.previous) if secret is not None]

    def of_worker(self, topology_id: str) -> dict[str, str]:
        """Return the keys for a worker of the topology, in hexadecimal, by kid."""
        assert self.secret is not None
        return {kid: derive(self.secret, kid).hex() for kid in (METRICS_KEY, topology_key(topology_id))}


def own_token(
    keyring: Keyring, name: str, kind: Kind, topology: str = "", clock: Callable[[], float] = time.time
) -> Callable[[], str]:
    """Return a function that returns the process's own current token, renewed at half its lifetime."""
    token, renew_s = "", 0.0

    def current() -> str:
        nonlocal token, renew_s
        now_s = clock()
        if now_s >= renew_s:
            token = keyring.issue(name, kind, topology=topology, now_unix_s=now_s)
            renew_s = now_s + OWN_TOKEN_S / 2
        return token

    return current


def unverified(token: str) -> dict[str, Any]:
    """Return a token's claims without verification, for display. Raises UnauthenticatedError if it is malformed."""
    jwt = _jwt()

    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        raise UnauthenticatedError("this is not a token: a JSON Web Token is expected") from None
    return claims


def _kid(kind: Kind, roles: frozenset[str], topology: str) -> str:
    if kind == "worker":
        return topology_key(topology)
    return METRICS_KEY if kind == "user" and roles == {METRICS} else CLUSTER


def _principal(claims: Mapping[str, Any], kid: str) -> Principal:
    """Return the principal of the claims, provided that the key may sign them: a key cannot exceed its scope."""
    kind: Any = claims.get("kind")
    roles, topology = claims.get("roles", []), claims.get("topology", "")
    name = claims["sub"]
    is_well_formed = (
        isinstance(name, str)
        and name != ""
        and kind in ("user", "daemon", "worker")
        and isinstance(roles, list)
        and all(role in ROLES for role in roles)
        and isinstance(topology, str)
        and bool(topology) == (kind == "worker")
    )
    if not is_well_formed or _kid(kind, frozenset(roles), topology) != kid:
        raise UnauthenticatedError("the token has claims that its key may not sign")
    return Principal(name, kind, frozenset(roles), topology)


def _jwt() -> Any:
    return imported("jwt", SERVER, "security.tokens")  # slow to import, and only needed with tokens
