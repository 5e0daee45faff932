"""Metrics of a worker's links, shared by links to peers and links to ackers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Link(Protocol):
    """A link to a peer or an acker."""

    is_up: bool
    connects: int


class LinkMetrics:
    """Mixin with the metrics of all links of one kind."""

    _links: Mapping[str, Link]
    _connects: int  # of links that were closed

    @property
    def links_up(self) -> int:
        """The number of links that are up."""
        return sum(link.is_up for link in self._links.values())

    @property
    def links_wanted(self) -> int:
        """The number of links, up or not."""
        return len(self._links)

    @property
    def connects(self) -> int:
        """The number of times a link came up."""
        return self._connects + sum(link.connects for link in self._links.values())
