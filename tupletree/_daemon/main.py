"""The main function of nimbus, supervisor and acker: arguments, configuration, log, security, run loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tupletree._daemon.arguments import daemon_parser
from tupletree._daemon.config import DaemonConfig
from tupletree._daemon.run import run_daemon
from tupletree._log import setup_logging
from tupletree._security import exposure
from tupletree._security.current import Security, use
from tupletree.config import load
from tupletree.errors import ConfigError

log = logging.getLogger("tupletree.daemon")

C = TypeVar("C", bound=DaemonConfig)


class Daemon(Protocol):
    """One run of a daemon process, created in the event loop."""

    async def run(self, stop: asyncio.Event) -> int | None:
        """Serve until ``stop`` is set. Returns the exit status; None: 0."""


def run_main(
    role: str,
    description: str,
    configure: Callable[[Mapping[str, Any]], C],
    create: Callable[[C, str | None], Daemon],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a daemon in the foreground until it ends, and return the exit status of the process, as ``run_daemon`` does.

    ``configure`` parses the configuration; ``create`` gets the result and the file for the announcement, or None.
    """
    arguments = daemon_parser(role, description).parse_args(argv)

    async def run(stop: asyncio.Event) -> int | None:
        conf = load(arguments.conf, arguments.overrides)
        config = configure(conf)
        setup_logging(role, config.logs_dir, config.logs_level)
        if sys.stderr.isatty():
            print(f"{role} runs until Ctrl-C; its log is {config.logs_dir}/{role}.log", file=sys.stderr, flush=True)
        _secure(conf, role)
        return await create(config, arguments.announce).run(stop)

    return run_daemon(run)


def _secure(conf: Mapping[str, Any], role: str) -> None:
    """Apply the security settings of ``conf`` to every channel and server of this process.

    Raises ConfigError if a configured file is invalid, or if the daemon would be unprotected on the network.
    """
    why = exposure.refusal(conf)
    if why is not None:
        raise ConfigError(why)
    use(Security.of_daemon(conf, role))
    if (warning := exposure.warning(conf)) is not None:
        log.warning("%s", warning)
        print(warning, file=sys.stderr, flush=True)
