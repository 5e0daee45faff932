"""Check that a daemon may listen on its configured address. Pure.

On the loopback interface, only this machine's users can reach a daemon. Any other address requires TLS, so that nobody
on the network can read or change the traffic, and tokens, so that not everybody who can connect has all rights.
"""

from __future__ import annotations  # pure

import ipaddress
from collections.abc import Mapping
from typing import Any


def is_loopback(host: str) -> bool:
    """True if a ``bind.host`` is reachable only from its own machine. Names other than localhost are not trusted."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def missing(conf: Mapping[str, Any]) -> list[str]:
    """Return the missing protections of a daemon; empty if none is missing, or on the loopback interface."""
    if is_loopback(str(conf["bind.host"])):
        return []
    lacks = [] if conf.get("tls.ca") and conf.get("tls.cert") else ["TLS (tls.ca, tls.cert, tls.key)"]
    return lacks if conf.get("security.tokens") else [*lacks, "tokens (security.tokens, security.secret.file)"]


def refusal(conf: Mapping[str, Any]) -> str | None:
    """Return the reason why a daemon with this configuration must not start; None if it may."""
    lacks = missing(conf)
    if not lacks or conf.get("security.insecure"):
        return None
    return (
        f"refusing to listen on bind.host {conf['bind.host']}, beyond this machine, without {' and '.join(lacks)}: "
        f"anybody who reaches a port could run code here. Create certificates and secret with 'tupletree certs DIR', "
        f"or set security.insecure: true"
    )


def warning(conf: Mapping[str, Any]) -> str | None:
    """Return the warning for a daemon that starts without protection, or None."""
    lacks = missing(conf)
    if not lacks:
        return None
    return (
        f"INSECURE: listening on {conf['bind.host']} without {' and '.join(lacks)}, as security.insecure allows: "
        f"anybody who reaches a port can run code here"
    )
