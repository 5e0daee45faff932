"""A daemon's first use of its configuration: checking that it may listen on the configured address."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from tupletree._security import exposure
from tupletree._security.current import Security, use
from tupletree.errors import ConfigError

log = logging.getLogger("tupletree.daemon")


def secure_daemon(conf: Mapping[str, Any], role: str) -> None:
    """Apply the security settings of ``conf`` to every channel and server of this process.

    Raises ConfigError if a configured file is invalid, or if the daemon would be unprotected on the network.
    """
    why = exposure.refusal(conf)
    if why is not None:
        raise ConfigError(why)
    use(Security.of_daemon(conf, role))
    if (said := exposure.warning(conf)) is not None:
        log.warning("%s", said)
        print(said, file=sys.stderr, flush=True)
