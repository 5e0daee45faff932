"""Impersonation: a program, such as a portal, calls in the name of its users. Pure.

    token of portal  +  tupletree-as-user: alice   ->   user 'alice' through 'portal'

``nimbus.impersonation.acl`` says whose names a program may use, and from which addresses. The roles are those of the
program's own token, without admin, and ``nimbus.admins`` does not count: nobody becomes an administrator by a name.
"""

from __future__ import annotations  # pure

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, unquote

from tupletree._security.rights import ADMIN, Principal
from tupletree.errors import ConfigError, ForbiddenError

HEADER: Final = "tupletree-as-user"
"""The gRPC metadata and HTTP header with the user's name, percent-encoded."""

KEY: Final = "nimbus.impersonation.acl"
MAX_NAME: Final = 200

_ANY: Final = "*"
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Proxy:
    """The rights of one program. ``networks`` None: from any address. ``users`` with "*": in any name."""

    users: frozenset[str]
    networks: tuple[_Network, ...] | None


def proxies_of(conf: Mapping[str, Any]) -> dict[str, Proxy]:
    """Return the programs of ``nimbus.impersonation.acl``, by user name. Raises ConfigError."""
    return {str(name): _proxy(str(name), entry) for name, entry in dict(conf.get(KEY) or {}).items()}


def encoded(name: str) -> str:
    """Return a user's name as the header holds it."""
    return quote(name, safe="")


def impersonated(
    who: Principal | None, header: str | None, peer: str, proxies: Mapping[str, Proxy]
) -> Principal | None:
    """Return the caller in whose name ``who`` calls; ``who`` itself without the header.

    ``peer``: the address of the caller, as gRPC or HTTP state it. Raises ForbiddenError.
    """
    if header is None:
        return who
    name = unquote(header, errors="replace")
    if who is None:
        raise ForbiddenError(f"{HEADER} requires the token of a program that may use the names of others")
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ForbiddenError(f"{HEADER} holds no name of a user")
    proxy = proxies.get(who.name) if who.kind == "user" else None
    if proxy is None or not proxy.users & {name, _ANY}:
        raise ForbiddenError(f"{who.sentence} may not call in the name of '{name}' ({KEY})")
    if not _is_from(peer, proxy.networks):
        raise ForbiddenError(f"{who.sentence} may not call in the names of others from this address ({KEY})")
    return replace(who, name=name, roles=who.roles - {ADMIN}, through=who.name)


def host_of(peer: str) -> str:
    """Return the host of a peer such as ``ipv4:10.0.0.7:1234``, ``ipv6:[::1]:1234`` or ``10.0.0.7``."""
    scheme, _, rest = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return peer
    return rest.rpartition(":")[0].strip("[]")


def _is_from(peer: str, networks: tuple[_Network, ...] | None) -> bool:
    if networks is None:
        return True
    try:
        address = ipaddress.ip_address(host_of(peer))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


def _proxy(name: str, entry: object) -> Proxy:
    if not isinstance(entry, Mapping) or set(entry) != {"users", "hosts"}:
        raise ConfigError(
            f"{KEY} gives {name!r} {entry!r}, expected both users and hosts, such as "
            '{users: [alice, bob], hosts: [10.1.0.0/16]}; "*" stands for all'
        )
    users, hosts = _texts(name, "users", entry["users"]), _texts(name, "hosts", entry["hosts"])
    if _ANY in hosts:
        return Proxy(users, None)
    try:
        return Proxy(users, tuple(ipaddress.ip_network(host) for host in sorted(hosts)))
    except ValueError as error:
        raise ConfigError(
            f"{KEY}: the hosts of {name!r} are addresses or networks such as 10.1.0.0/16: {error}"
        ) from None


def _texts(name: str, field: str, value: object) -> frozenset[str]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise ConfigError(f"{KEY}: the {field} of {name!r} are {value!r}, expected a list of texts")
    return frozenset(value)
