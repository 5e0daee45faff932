"""Stored values with their versions, for compare-and-set."""

from __future__ import annotations  # pure

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Versioned(Generic[T]):
    """A stored value and its version, for compare-and-set. Version -1: not stored yet."""

    value: T
    version: int


class Found(dict[str, Versioned[T]]):
    """The readable values of one folder in ZooKeeper, by id.

    ``unreadable``: the reasons why other nodes of the folder are unreadable, by the id in the node's name. An id in
    ``unreadable`` still exists: code that acts on removed ids must leave it alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[str, str] = {}
