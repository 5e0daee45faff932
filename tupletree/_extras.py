"""Packages that Tupletree uses if they are installed, each named with the command that installs it."""

from __future__ import annotations

import importlib
from typing import Any, Final

from tupletree.errors import UsageError

SERVER: Final = "pip install 'tupletree[server]'"
OBJECTSTORE: Final = "pip install 'tupletree[objectstore]'"
PYARROW: Final = "pip install 'pyarrow>=18'"
PYSPARK: Final = "pip install 'pyspark>=4.3,<4.4'"


def imported(module: str, install: str, user: str) -> Any:
    """Import the module that ``user`` needs. Raises UsageError with the command ``install`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{user} needs the package {module.partition('.')[0]}: {install}") from error
