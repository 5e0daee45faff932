"""What the links of a worker to its peers, and those to its ackers, have in common: how many, and how they fare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Link(Protocol):
    """One of them."""

    is_up: bool
    connects: int


class LinkMetrics:
    """The figures of all links of one kind, for whoever holds them."""

    _links: Mapping[str, Link]
    _connects: int  # of links that are gone

    @property
    def links_up(self) -> int:
        """How many links stand."""
        return sum(link.is_up for link in self._links.values())

    @property
    def links_wanted(self) -> int:
        """How many links there are, standing or not."""
        return len(self._links)

    @property
    def connects(self) -> int:
        """How often a link came to stand."""
        return self._connects + sum(link.connects for link in self._links.values())
