"""The command line shared by all daemons."""

from __future__ import annotations

import argparse
from typing import NoReturn


class _OneSentence(argparse.ArgumentParser):
    """A parser that reports errors in one line, like the rest of the command line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}. Try '{self.prog} --help'.\n")


def daemon_parser(role: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of a daemon's arguments: ``conf``, ``overrides`` and ``announce``. Errors exit with status 2."""
    parser = _OneSentence(prog=f"tupletree {role}", description=description)
    parser.add_argument("--conf", metavar="FILE", help="read this tupletree.yaml, not the default")
    parser.add_argument("-c", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help="set one key")
    parser.add_argument("--announce", metavar="FILE", help="write ports and id to FILE as JSON, once serving")
    return parser
