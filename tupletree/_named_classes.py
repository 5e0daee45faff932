"""Classes of hooks that the configuration names as ``module:Class``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeVar

from tupletree.errors import TopologyError, TupletreeError

H = TypeVar("H")


def made_of(key: str, names: Iterable[str], kind: type[H], refusal: type[TupletreeError] = TopologyError) -> list[H]:
    """Return a hook of each named class. Raises ``refusal`` if one cannot be made."""
    try:
        return [_made(key, name, kind) for name in names]
    except TopologyError as error:
        raise refusal(str(error)) from error


def _made(key: str, name: str, kind: type[H]) -> H:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a module of the user raises
        raise TopologyError(f"{key}: {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, kind):
        raise TopologyError(f"{key}: {name!r} is not a class that extends tupletree.hooks.{kind.__name__}")
    try:
        return found()
    except Exception as error:  # whatever a class of the user raises
        raise TopologyError(
            f"{key}: {name!r} cannot be created without arguments: {type(error).__name__}: {error}"
        ) from error
