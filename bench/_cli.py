"""The common command line of every bench: its own arguments, then ``--json`` and ``--record``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any, NoReturn

from bench._record import record


class WrongResultError(Exception):
    """The measured code produced a wrong result, so its metrics mean nothing."""


def run(
    name: str,
    document: str | None,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    constants: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Measure, print, and record with ``--record``; return the exit status: 1 if the result was wrong.

    ``document`` is the module's docstring, shown by ``--help``; ``constants`` are recorded with the configuration.
    SIGTERM ends a bench like an interrupt from the keyboard, so that its processes and directories are removed.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    own = [action.dest for action in parser._actions if action.dest != "help"]
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--record", action="store_true", help="keep the result in bench/results/")
    arguments = parser.parse_args()
    end_at_sigterm()
    try:
        result = measure(arguments)
    except (WrongResultError, TimeoutError) as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    if arguments.record:
        record(name, {**{key: getattr(arguments, key) for key in own}, **constants}, result)
    print(json.dumps(result) if arguments.json else as_lines(result))
    return 0


def as_lines(result: dict[str, Any]) -> str:
    """Format a result for people, one line per metric."""
    width = max(map(len, result))
    return "\n".join(
        f"{key:>{width}}  {value:,}" if isinstance(value, int | float) else f"{key:>{width}}  {value}"
        for key, value in result.items()
    )


def end_at_sigterm() -> None:
    """Let SIGTERM end this process like an interrupt from the keyboard."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
