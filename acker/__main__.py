"""``python -m tupletree.acker [--conf FILE] [-c key=value] [--announce FILE]``: run the acker in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# The ledgers are columns of numpy, without linear algebra. Otherwise numpy's import starts a thread for each processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tupletree._daemon.main import run_main

from .config import AckerConfig
from .daemon import AckerDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the drain after SIGTERM is complete, and return the exit status."""
    return run_main("acker", "Track tuple trees: the XOR ledger service.", AckerConfig.from_conf, AckerDaemon, argv)


if __name__ == "__main__":
    sys.exit(main())
