"""Addresses as text, ``host:port``. An IPv6 address is in brackets: ``[::1]:6627``."""

from __future__ import annotations


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
