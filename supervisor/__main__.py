"""``python -m tupletree.supervisor [--conf FILE] [-c key=value] [--announce FILE]``: run in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.arguments import daemon_parser
from tupletree._daemon.run import run_daemon
from tupletree._daemon.secure import secure_daemon
from tupletree._log import setup_logging
from tupletree.config import load
from tupletree.errors import TupletreeError

from .config import SupervisorConfig
from .daemon import SupervisorDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM. Returns the exit status."""
    arguments = daemon_parser("supervisor", "Run the workers of this machine.").parse_args(argv)
    try:
        config = SupervisorConfig.from_conf(load(arguments.conf, arguments.overrides))
        setup_logging("supervisor", config.logs_dir, config.logs_level)
        secure_daemon(config.conf, "supervisor")
        daemon = SupervisorDaemon(config, arguments.announce)
    except TupletreeError as error:
        print(error, file=sys.stderr)
        return 2
    return run_daemon(daemon.run)


if __name__ == "__main__":
    sys.exit(main())
