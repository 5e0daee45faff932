"""The programs of examples/, which read their addresses from the environment when they are imported."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


def imported_example(name: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> ModuleType:
    """The module of an example, imported anew with these variables."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    return importlib.reload(importlib.import_module(f"examples.{name}"))
