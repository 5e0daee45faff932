"""The first thing that a daemon does with its configuration: see that it may listen where it is told to."""

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
    """Have every channel and server of this process made as ``conf`` says.

    Raises ConfigError if a file of it is not as it must be, or the daemon would be open to the network.
    """
    why = exposure.refusal(conf)
    if why is not None:
        raise ConfigError(why)
    use(Security.of_daemon(conf, role))
    if (said := exposure.warning(conf)) is not None:
        log.warning("%s", said)
        print(said, file=sys.stderr, flush=True)
