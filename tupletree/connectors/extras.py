"""The client libraries of connectors, each of which is an extra of its own."""

from __future__ import annotations

from typing import Any

from tupletree import _extras


def imported(module: str, extra: str) -> Any:
    """Import a client library. Raises UsageError with the command that installs it."""
    return _extras.imported(module, f"pip install 'tupletree[{extra}]'", "this connector")
