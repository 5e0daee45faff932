"""What a task counts for Prometheus: counters, gauges, histograms and timers, made by ``context.register_…``.

A metric belongs to one task and is written by that task's thread; a component with threads of its own writes it by
``context.call_soon``, or under a lock of its own. It is read at any moment by the worker that shows it, on another
thread. None of them does any I/O: to add to a counter costs about as much as to add to a number.

How they are shown (docs/guides/metrics.md): ``register_counter("orders")`` as ``tupletree_user_orders_total`` with the
labels topology, component and task.
"""

from __future__ import annotations

import contextlib
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tupletree._wire.latency import BOUNDS_S

__all__ = ["Counter", "Gauge", "Histogram", "Registered", "Snapshot", "Timer"]

MAX_METRICS: Final = 100
"""Of one task. Each is a time series for each task, and a histogram one for each bucket: Prometheus keeps them all."""

MAX_BOUNDS: Final = 50

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
_TAKEN: Final = ("_total", "_sum", "_count", "_bucket", "_created", "_info")

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A histogram at one moment: its bounds, how many values were at most so great (not cumulated), and their sum.

    There is one count more than there are bounds.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@dataclass(frozen=True, slots=True)
class Registered:
    """One metric of one task. ``name`` as it is shown, but a counter's without ``_total``."""

    name: str
    kind: Kind
    help: str
    read: Callable[[], float | Snapshot]


class Counter:
    """A number that only grows, from 0 when the task starts: Prometheus makes rates of it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Count. Raises ValueError if ``amount`` is negative, or not a number."""
        if not amount >= 0:
            raise ValueError(f"a counter only grows, and {amount} was to be added; use a gauge")
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """What it is now."""
        self.value = value

    def add(self, amount: float = 1) -> None:
        """Change it by so much."""
        self.value += amount


class Histogram:
    """Counts values by size. ``bounds``: the upper bound of each bucket, ascending; there is one more without."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self._bounds = tuple(float(bound) for bound in bounds)
        if not 1 <= len(self._bounds) <= MAX_BOUNDS or not all(map(math.isfinite, self._bounds)):
            raise ValueError(f"a histogram has 1 to {MAX_BOUNDS} finite bounds, not {list(bounds)}")
        if any(low >= high for low, high in zip(self._bounds, self._bounds[1:], strict=False)):
            raise ValueError(f"the bounds of a histogram ascend, unlike {list(bounds)}")
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> Snapshot:
        """What was counted so far."""
        return Snapshot(self._bounds, list(self._counts), self._sum)


class Timer(Histogram):
    """A histogram of seconds: ``with timer.time(): …`` counts how long the block takes, also if it raises."""

    __slots__ = ("_clock",)

    def __init__(self, clock: Callable[[], float], bounds: Sequence[float] = BOUNDS_S) -> None:
        super().__init__(bounds)
        self._clock = clock

    @contextlib.contextmanager
    def time(self) -> Iterator[None]:
        """Measure a block."""
        began_s = self._clock()
        try:
            yield
        finally:
            self.observe(self._clock() - began_s)


def check_name(name: object, owner: str) -> str:
    """The name of a user's metric. ``owner``: whose it is, for the sentence.

    Raises:
        ValueError: Prometheus could not take it, or could take it for another one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{owner} registers a metric {name!r}: a name is of lower-case letters, digits and underscores, begins "
            f"with a letter, and is at most 100 long"
        )
    for ending in _TAKEN:
        if name.endswith(ending):
            raise ValueError(
                f"{owner} registers a metric {name!r}: Prometheus gives {ending!r} to names by itself; use "
                f"{name.removesuffix(ending)!r}"
            )
    return name
