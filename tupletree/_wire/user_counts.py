"""Counts of a task, or of a sum of tasks, without what is the system's: ticks, checkpoint steps and watermarks.

A task's own counters include those, as their time keeps it busy. What people are shown does not, as in Storm.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import Any, Protocol

from tupletree._wire.names import is_system


class Stats(Protocol):
    """Counts as nimbus's contract has them (TaskStats), or its client."""

    @property
    def streams(self) -> Sequence[Any]: ...

    @property
    def inputs(self) -> Sequence[Any]: ...


def of_streams(stats: Stats, name: str, *, sys: bool = False) -> int:
    """Return the sum of ``emitted`` or ``transferred`` over the streams of the user; ``sys``: over all."""
    return sum(getattr(one, name) for one in stats.streams if sys or not is_system(one.stream))


def of_inputs(stats: Stats, *names: str) -> list[Any]:
    """Return the sums of counters of ``InputStats`` over the inputs of the user; a spout's own, as it has no inputs.

    They are sums, and no differences of total and system: a task counts on while its counters are read one by one, and
    a difference could fall.
    """
    own = [one for one in stats.inputs if not (is_system(one.source_component) or is_system(one.stream))]
    counted = own if stats.inputs else [stats]
    return [sum(getattr(one, name) for one in counted) for name in names]
