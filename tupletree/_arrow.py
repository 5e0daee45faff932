"""PyArrow, for sinks with typed columns: ``from tupletree._arrow import pa, pq``.

An installation for programs without such sinks, and without pipelines, does without it.
"""

from __future__ import annotations

from typing import Any, Final

from tupletree._extras import PYARROW, imported

_MODULES: Final = {"csv": "pyarrow.csv", "pa": "pyarrow", "pc": "pyarrow.compute", "pq": "pyarrow.parquet"}


def __getattr__(name: str) -> Any:
    """Import a module of PyArrow. Raises UsageError with the command that installs it, if it is not installed."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return imported(_MODULES[name], PYARROW, "a sink with typed columns")
