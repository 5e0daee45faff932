"""``python -m tupletree.nimbus [--conf FILE] [-c key=value] [--announce FILE]``: a nimbus in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tupletree._daemon.logs import setup_logging
from tupletree._daemon.run import run_daemon
from tupletree.config import load
from tupletree.errors import TupletreeError

from .config import NimbusConfig
from .daemon import NimbusDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="tupletree nimbus", description="Coordinate the cluster, or stand by.")
    parser.add_argument("--conf", metavar="FILE", help="a tupletree.yaml; default: the usual places")
    parser.add_argument("-c", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help="set one key")
    parser.add_argument("--announce", metavar="FILE", help="write ports and id there as JSON once serving")
    arguments = parser.parse_args(argv)
    try:
        config = NimbusConfig.from_conf(load(arguments.conf, arguments.overrides))
        setup_logging("nimbus", config.logs_dir, config.logs_level)
    except TupletreeError as error:
        print(error, file=sys.stderr)
        return 2

    async def run(stop: asyncio.Event) -> None:
        await NimbusDaemon(config, arguments.announce).run(stop)

    return run_daemon(run)


if __name__ == "__main__":
    sys.exit(main())
