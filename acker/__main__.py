"""``python -m tupletree.acker [--conf FILE] [-c key=value] [--announce FILE]``: run the acker in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.main import run_main

from .config import AckerConfig
from .daemon import AckerDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the drain after SIGTERM is complete, and return the exit status."""
    return run_main("acker", "Track tuple trees: the XOR ledger service.", AckerConfig.from_conf, AckerDaemon, argv)


if __name__ == "__main__":
    sys.exit(main())
