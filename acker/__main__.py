"""``python -m tupletree.acker [--conf FILE] [-c key=value] [--announce FILE]``: run the acker in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tupletree._daemon.arguments import daemon_parser
from tupletree._daemon.run import run_daemon
from tupletree._daemon.secure import secure_daemon
from tupletree._log import setup_logging
from tupletree.config import load
from tupletree.errors import TupletreeError

from .config import AckerConfig
from .daemon import AckerDaemon


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the drain after SIGTERM is complete. Returns the exit status."""
    arguments = daemon_parser("acker", "Track tuple trees: the XOR ledger service.").parse_args(argv)
    try:
        conf = load(arguments.conf, arguments.overrides)
        config = AckerConfig.from_conf(conf)
        setup_logging("acker", config.log_dir, config.log_level)
        secure_daemon(conf, "acker")
    except TupletreeError as error:
        print(error, file=sys.stderr)
        return 2
    return run_daemon(lambda stop: AckerDaemon(config, conf, arguments.announce).run(stop))


if __name__ == "__main__":
    sys.exit(main())
