"""``python -m tupletree.supervisor [--conf FILE] [-c key=value] [--announce FILE]``: run in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.main import run_main

from .config import SupervisorConfig
from .daemon import SupervisorDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, and return the exit status."""
    return run_main(
        "supervisor", "Run the workers of this machine.", SupervisorConfig.from_conf, SupervisorDaemon, argv
    )


if __name__ == "__main__":
    sys.exit(main())
