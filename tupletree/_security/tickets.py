"""Tickets: nimbus's statements that a caller may ask the workers of a topology about one component's state.

A ticket is a JSON Web Token like a token (tokens.py), signed with the key of the topology, which its workers hold. Its
audience is not that of tokens: no call and no page takes a ticket for a token, nor a worker a token for a ticket.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from tupletree._extras import SERVER, imported
from tupletree._security.tokens import ALGORITHM, Keyring, topology_key
from tupletree.errors import UnauthenticatedError

TICKET_S: Final = 30.0
"""The time for which a ticket is valid: what a user may see can change meanwhile."""
_CLOCKS_DIFFER_S: Final = 15.0
_MAX_BYTES: Final = 8192
_REQUIRED: Final = ("sub", "aud", "iat", "exp", "topology", "component")


@dataclass(frozen=True, slots=True)
class Ticket:
    """The statement of a ticket. ``left_s``: the time for which it still counts here, although clocks differ."""

    subject: str
    topology_id: str
    component: str
    left_s: float


def issue_ticket(keyring: Keyring, subject: str, topology_id: str, component: str, now_unix_s: float) -> str:
    """Return a ticket. Raises ConfigError if this process holds no key of the topology."""
    claims = {
        "sub": subject,
        "aud": _audience(keyring),
        "iat": int(now_unix_s),
        "exp": int(now_unix_s + TICKET_S),
        "topology": topology_id,
        "component": component,
    }
    kid = topology_key(topology_id)
    return str(_jwt().encode(claims, keyring.signing_key(kid), ALGORITHM, headers={"kid": kid}))


def check_ticket(keyring: Keyring, ticket: str, topology_id: str, component: str) -> Ticket:
    """Return what a ticket says. Raises UnauthenticatedError unless it is valid for the component of the topology."""
    jwt = _jwt()
    claims: dict[str, Any] = {}
    if len(ticket) > _MAX_BYTES:
        raise UnauthenticatedError("the ticket is too long")
    for key in keyring.keys_of(topology_key(topology_id)):
        try:
            claims = jwt.decode(
                ticket,
                key,
                algorithms=[ALGORITHM],
                audience=_audience(keyring),
                leeway=_CLOCKS_DIFFER_S,
                options={"require": list(_REQUIRED), "strict_aud": True},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the ticket has expired") from None
        except (jwt.InvalidTokenError, UnicodeEncodeError):
            continue
        break
    if not claims:
        raise UnauthenticatedError("the ticket is not valid for this topology")
    if claims["topology"] != topology_id or claims["component"] != component:
        raise UnauthenticatedError("the ticket is for another component")
    left_s = float(claims["exp"]) + _CLOCKS_DIFFER_S - time.time()
    return Ticket(str(claims["sub"]), topology_id, component, max(0.0, left_s))


def _audience(keyring: Keyring) -> str:
    return f"{keyring.audience} states"


def _jwt() -> Any:
    return imported("jwt", SERVER, "security.tokens")
