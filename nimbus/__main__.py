"""``python -m tupletree.nimbus [--conf FILE] [-c key=value] [--announce FILE]``: run a nimbus in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.main import run_main

from .config import NimbusConfig
from .daemon import NimbusDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, and return the exit status."""
    return run_main("nimbus", "Coordinate the cluster, or stand by.", NimbusConfig.from_conf, NimbusDaemon, argv)


if __name__ == "__main__":
    sys.exit(main())
