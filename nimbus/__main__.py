"""``python -m tupletree.nimbus [--conf FILE] [-c key=value] [--announce FILE]``: run a nimbus in the foreground."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from tupletree._daemon.arguments import daemon_parser
from tupletree._daemon.run import run_daemon
from tupletree._daemon.secure import secure_daemon
from tupletree._log import setup_logging
from tupletree.config import load
from tupletree.errors import TupletreeError

from .config import NimbusConfig
from .daemon import NimbusDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM and return the exit status."""
    arguments = daemon_parser("nimbus", "Coordinate the cluster, or stand by.").parse_args(argv)
    try:
        config = NimbusConfig.from_conf(load(arguments.conf, arguments.overrides))
        setup_logging("nimbus", config.logs_dir, config.logs_level)
        secure_daemon(config.conf, "nimbus")
    except TupletreeError as error:
        print(error, file=sys.stderr)
        return 2

    async def run(stop: asyncio.Event) -> None:
        await NimbusDaemon(config, arguments.announce).run(stop)

    return run_daemon(run)


if __name__ == "__main__":
    sys.exit(main())
