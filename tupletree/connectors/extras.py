"""The client libraries of connectors, each of which is an extra of its own."""

from __future__ import annotations

import importlib
from typing import Any

from tupletree.errors import UsageError


def imported(module: str, extra: str) -> Any:
    """Import a client library. Raises UsageError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"this connector needs the package {module.partition('.')[0]}: pip install 'tupletree[{extra}]'"
        ) from error
