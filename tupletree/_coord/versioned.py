"""Stored values together with their versions: what a compare-and-set needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Versioned(Generic[T]):
    """A stored value and the version that a compare-and-set of it must name. Version -1: not stored yet."""

    value: T
    version: int


class Found(dict[str, Versioned[T]]):
    """The readable values of one folder in ZooKeeper, by id.

    ``unreadable``: the reasons why other nodes of the folder cannot be read, by the id that a node is named after. An
    id in ``unreadable`` is not gone: whoever acts on what is gone must leave it alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[str, str] = {}
