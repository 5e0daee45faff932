"""Arguments and settings of components in other languages."""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree.errors import UsageError

PYTHON: Final = "{python}"
"""A program's name that stands for the Python of the worker, with all packages of the topology."""


def check_command(owner: str, command: Sequence[str]) -> list[str]:
    """Return the program and its arguments. Raises UsageError if they are not texts."""
    if isinstance(command, str) or not command or not all(isinstance(part, str) and part for part in command):
        raise UsageError(f"{owner}: command is {command!r}; a list such as ['node', 'split.js'] was expected")
    return list(command)


def check_environment(owner: str, environment: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables to add. Raises UsageError if they are not texts."""
    found = dict(environment or {})
    if not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise UsageError(f"{owner}: environment is {environment!r}; a mapping of texts was expected")
    return found


def timeout_s(conf: Mapping[str, Any]) -> float:
    """Return the longest silence of a child."""
    return float(conf["topology.subprocess.timeout.secs"])
