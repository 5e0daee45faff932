"""The program of a stream, and the settings that every operator has."""

from __future__ import annotations

import datetime as dt
from typing import Any, Protocol, Required, TypedDict

from tupletree.backoff import Backoff
from tupletree.streams.history import ParquetHistory
from tupletree.topology import Topology


class Program(Protocol):
    """The StreamBuilder, as its streams use it."""

    def topology(self) -> Topology:
        """Return the program as a topology."""

    def explain(self) -> str:
        """Return the components that the program becomes."""

    def run_local(self) -> None:
        """Run the program in this process."""

    def collect(self, stream: Any, count: int, seconds: float) -> list[Any]:
        """Return the first elements of a stream."""


class Placing(TypedDict, total=False):
    """Settings of every operator that can be a component.

    Attributes:
        name: the name of the operator; of its component, if it begins one.
        parallelism: the number of its executors; without it, that of its input, or else of the StreamBuilder.
    """

    name: str
    parallelism: int


class Calls(Placing, total=False):
    """Settings of ``map_async``: see AsyncBolt.

    Attributes:
        in_flight: the number of elements that are awaited at a time; 100 without it.
        ordered: results keep the order of the elements of a task; otherwise they come as they are ready.
        timeout: the time for each element; 30 s without it.
        retry: the attempts at an element; without it, its failure fails the message of the source.
    """

    in_flight: int
    ordered: bool
    timeout: dt.timedelta
    retry: Backoff | None


class Interval(Placing, total=False):
    """Settings of a join of two streams: how much earlier, and how much later, a partner may be. Both are required."""

    before: Required[dt.timedelta]
    after: Required[dt.timedelta]


class Keeping(Placing, total=False):
    """Settings of every operator with a value per key.

    Attributes:
        history: the values that keys begin with. They are no elements: a key is emitted with its next one.
    """

    history: ParquetHistory


class Versioned(Keeping, total=False):
    """Settings of a join with a table. ``versioned``: by event time; False without it."""

    versioned: bool


class Emission(TypedDict, total=False):
    """When windows are emitted beside their end: see KeyedWindow.

    Attributes:
        allowed_lateness: how long after its end a window takes late elements, and is emitted again; 0 without it.
        early_every: the time from an element to an early result; without it, there is none.
        early_count: the number of elements of an early result; without it, there is none.
    """

    allowed_lateness: dt.timedelta
    early_every: dt.timedelta | None
    early_count: int | None
