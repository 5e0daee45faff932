"""Whether a daemon may listen where it is told to. Pure.

On the loopback interface only this machine's users can reach it. Anywhere else it takes TLS, so that nobody on the way
reads or changes what is said, and tokens, so that not everybody who reaches it may do everything.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any


def is_loopback(host: str) -> bool:
    """Whether a ``bind.host`` is reached from its own machine only. A name other than localhost is not trusted."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def missing(conf: Mapping[str, Any]) -> list[str]:
    """What a daemon that others can reach lacks; empty if it lacks nothing, or is not reached by others."""
    if is_loopback(str(conf["bind.host"])):
        return []
    lacks = [] if conf.get("tls.ca") and conf.get("tls.cert") else ["TLS (tls.ca, tls.cert, tls.key)"]
    return lacks if conf.get("security.tokens") else [*lacks, "tokens (security.tokens, security.secret.file)"]


def refusal(conf: Mapping[str, Any]) -> str | None:
    """Why a daemon with this configuration must not start; None if it may."""
    lacks = missing(conf)
    if not lacks or conf.get("security.insecure"):
        return None
    return (
        f"refusing to listen on bind.host {conf['bind.host']}, beyond this machine, without {' and '.join(lacks)}: "
        f"anybody who reaches a port could run code here. 'tupletree certs DIR' makes what is needed; "
        f"security.insecure: true does without"
    )


def warning(conf: Mapping[str, Any]) -> str | None:
    """What is to be said loudly of a daemon that starts all the same."""
    lacks = missing(conf)
    if not lacks:
        return None
    return (
        f"INSECURE: listening on {conf['bind.host']} without {' and '.join(lacks)}, as security.insecure says: "
        f"anybody who reaches a port can run code here"
    )
