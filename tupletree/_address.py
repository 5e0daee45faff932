"""Addresses as text, ``host:port``. An IPv6 address is in brackets: ``[::1]:6627``."""

from __future__ import annotations

import ipaddress


def address_of(host: str, port: int) -> str:
    """Return the address of a port of a host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str, default_port: int) -> tuple[str, int]:
    """Return host and port of an address with or without a port. Without a port, IPv6 needs no brackets."""
    host, colon, digits = address.rpartition(":")
    if colon and digits.isdecimal() and (host.endswith("]") or ":" not in host):
        return host.removeprefix("[").removesuffix("]"), int(digits)
    return address.removeprefix("[").removesuffix("]"), default_port


def with_port(address: str, default_port: int) -> str:
    """Return an address with its port, or with the default."""
    return address_of(*split_address(address, default_port))


def is_address(address: str) -> bool:
    """True for a host, or a host and a port, as ``split_address`` reads them. A name need not exist."""
    host, port = split_address(address, 0)
    if not host or port > 65_535:
        return False
    try:
        return ":" not in host or bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False
