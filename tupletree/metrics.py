"""Prometheus metrics of a task: counters, gauges, histograms and timers, created by ``context.register_…``.

A metric belongs to one task and is written by that task's thread. A component with its own threads writes its metrics
through ``context.call_soon`` or under its own lock. The worker reads metrics at any time, on another thread. Metrics
do no I/O: adding to a counter costs about as much as adding to a number.

``register_counter("orders")`` is exposed as ``tupletree_user_orders_total`` with the labels topology, component and
task (docs/guides/metrics.md).
"""

from __future__ import annotations  # pure

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
"""Maximum per task. Prometheus keeps a time series per metric and task, for a histogram one per bucket."""

MAX_BOUNDS: Final = 50

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
_TAKEN: Final = ("_total", "_sum", "_count", "_bucket", "_created", "_info")

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a histogram: bucket bounds, the count of each bucket (not cumulative), and the sum of all values.

    There is one more count than bounds: the last bucket has no upper bound.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@dataclass(frozen=True, slots=True)
class Registered:
    """One metric of one task. ``name`` is the exposed name, for a counter without ``_total``."""

    name: str
    kind: Kind
    help: str
    read: Callable[[], float | Snapshot]


class Counter:
    """A number that only grows, from 0 at the start of the task. Prometheus computes rates from counters."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Add ``amount``. Raises ValueError if ``amount`` is negative or NaN."""
        if not amount >= 0:
            raise ValueError(f"a counter cannot decrease by {amount}; use a gauge")
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """Set the current value."""
        self.value = value

    def add(self, amount: float = 1) -> None:
        """Add ``amount``, which may be negative."""
        self.value += amount


class Histogram:
    """Counts values by size. ``bounds``: the upper bounds of the buckets, ascending; one more bucket is unbounded."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self._bounds = tuple(float(bound) for bound in bounds)
        if not 1 <= len(self._bounds) <= MAX_BOUNDS or not all(map(math.isfinite, self._bounds)):
            raise ValueError(f"a histogram has 1 to {MAX_BOUNDS} finite bounds, not {list(bounds)}")
        if any(low >= high for low, high in zip(self._bounds, self._bounds[1:], strict=False)):
            raise ValueError(f"the bounds of a histogram must ascend, not {list(bounds)}")
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        return Snapshot(self._bounds, list(self._counts), self._sum)


class Timer(Histogram):
    """A histogram of durations in seconds. ``with timer.time(): …`` measures the block, even if it raises."""

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
    """Return the name of a user's metric if it is valid. ``owner``: the metric's owner, for the error message.

    Raises:
        ValueError: the name is invalid in Prometheus, or ends in a suffix that Prometheus appends to names itself.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{owner} registers a metric {name!r}: a name consists of lower-case letters, digits and underscores, "
            f"begins with a letter, and has at most 100 characters"
        )
    for ending in _TAKEN:
        if name.endswith(ending):
            raise ValueError(
                f"{owner} registers a metric {name!r}: Prometheus itself appends {ending!r} to names; use "
                f"{name.removesuffix(ending)!r}"
            )
    return name
