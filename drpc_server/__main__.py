"""``tupletree drpc [--conf FILE] [-c key=value] [--announce FILE]``: run a DRPC server in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.main import run_main

from .config import DrpcConfig
from .daemon import DrpcDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM and the end of the drain, and return the exit status."""
    text = "Run a DRPC server: callers execute functions, which topologies answer."
    return run_main("drpc", text, DrpcConfig.from_conf, DrpcDaemon, argv)


if __name__ == "__main__":
    sys.exit(main())
