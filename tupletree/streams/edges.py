"""The connection of two components."""

from __future__ import annotations  # pure

from dataclasses import dataclass

from tupletree.streams.layout import Layout


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream as it reaches a component.

    Attributes:
        is_partial: it brings partial values of an aggregation.
        side: which of the inputs of the operator it is, from 0.
    """

    component: str
    stream: str
    layout: Layout
    is_partial: bool = False
    side: int = 0
