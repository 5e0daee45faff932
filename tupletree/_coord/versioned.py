"""A stored value together with its version: what a compare-and-set needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Versioned(Generic[T]):
    """A stored value and the version that a compare-and-set of it must name. Version -1: not stored yet."""

    value: T
    version: int
