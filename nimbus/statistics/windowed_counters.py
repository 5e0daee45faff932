"""History of counters, for counts over the last ten minutes, three hours and day.

Counters only rise. A history holds samples of the counters in one ring per window. Each ring has about thirty samples,
so that a day takes no more memory than ten minutes. Counters are interpolated linearly between two samples. A window
thus has its exact length, and its counts are exact if counters rise evenly between two samples.

A task can be running already when its first report arrives (a new leader, a worker that reports late). Its counts are
then spread evenly over the time since its worker started (``credit``). Incarnations that ended before are in no window.

A row is the time and the counters, as doubles, exact up to 2^53. Unchanged counters take two rows. Times are seconds of
a monotonic clock.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

from .counters import Counts, Key

WINDOWS_S: Final = (600, 10_800, 86_400)
BUCKETS: Final = 30
STEP_S: Final = WINDOWS_S[0] / BUCKETS
_MAX_COLUMNS: Final = 16_384  # further names that workers send are not counted


class WindowedCounters:
    """History of counters. ``keys``: the counters expected; others are added on their first appearance."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._column: dict[Key, int] = {key: number for number, key in enumerate(keys, 1)}
        self._rings = [_Ring(window_s / BUCKETS) for window_s in WINDOWS_S]

    def add_sample(self, counts: Mapping[Key, float], now_s: float) -> None:
        """Add a sample of the counters. Calls more often than every ``STEP_S`` make no difference."""
        if any(ring.is_due(now_s) for ring in self._rings):
            row = self._row(counts, now_s)
            for ring in self._rings:
                ring.push(row)

    def credit(self, counts: Mapping[Key, float], since_s: float, now_s: float) -> None:
        """Add counters to the past samples, as if they had risen evenly from 0 at ``since_s``."""
        row = self._row(counts, now_s)
        for ring in self._rings:
            ring.credit(row, since_s)

    def in_window(self, counts: Mapping[Key, float], window_s: float, now_s: float) -> Counts:
        """Return the counts of the last ``window_s``, one of WINDOWS_S. ``counts``: the present counters."""
        row = self._row(counts, now_s)
        before = self._rings[WINDOWS_S.index(int(window_s))].at(now_s - window_s, row)
        return {key: max(0.0, row[column] - before[column]) for key, column in self._column.items() if key in counts}

    def _row(self, counts: Mapping[Key, float], now_s: float) -> array[float]:
        fresh = [key for key in counts if key not in self._column][: max(0, _MAX_COLUMNS - len(self._column))]
        for key in fresh:
            self._column[key] = len(self._column) + 1
        if fresh:
            for ring in self._rings:
                ring.widen(len(self._column) + 1)
        row = array("d", bytes(8 * (len(self._column) + 1)))
        row[0] = now_s
        for key, count in counts.items():
            if (column := self._column.get(key)) is not None:
                row[column] = count
        return row


class _Ring:
    """Samples of one window, oldest first, in one array."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._width = 0
        self._rows: array[float] = array("d")

    def is_due(self, now_s: float) -> bool:
        return not self._rows or now_s - self._rows[-self._width] >= self._step_s

    def push(self, row: array[float]) -> None:
        if not self.is_due(row[0]):
            return
        self._width = self._width or len(row)
        if self._size() > 1 and self._row(-1)[1:] == self._row(-2)[1:] == row[1:]:
            self._rows[-self._width] = row[0]
            return
        self._rows.extend(row)
        while self._size() > BUCKETS + 2:
            del self._rows[: self._width]

    def credit(self, row: array[float], since_s: float) -> None:
        self._width = self._width or len(row)
        if not self._rows or since_s < self._rows[0]:
            zero = array("d", bytes(8 * self._width))
            zero[0] = since_s
            self._rows = zero + self._rows
        length_s = row[0] - since_s
        for start in range(0, len(self._rows), self._width):
            share = (self._rows[start] - since_s) / length_s if length_s > 0 else 0.0
            if share > 0:
                for column in range(1, self._width):
                    self._rows[start + column] += min(1.0, share) * row[column]

    def at(self, moment_s: float, now: array[float]) -> array[float]:
        """Return the counters at ``moment_s``; before the first sample, those of the first sample."""
        if not self._rows:
            return array("d", bytes(8 * len(now)))
        times = self._rows[:: self._width]
        later = next((number for number, time_s in enumerate(times) if time_s > moment_s), len(times))
        if later == 0:
            return self._row(0)
        low, high = self._row(later - 1), self._row(later) if later < len(times) else now
        if high[0] <= low[0]:
            return low
        share = (moment_s - low[0]) / (high[0] - low[0])
        return array("d", (a + share * (b - a) for a, b in zip(low, high, strict=True)))

    def widen(self, width: int) -> None:
        if self._rows:
            more = array("d", bytes(8 * (width - self._width)))
            rows = [self._row(number) + more for number in range(self._size())]
            self._rows = array("d")
            for row in rows:
                self._rows.extend(row)
            self._width = width

    def _size(self) -> int:
        return len(self._rows) // self._width

    def _row(self, number: int) -> array[float]:
        start = number * self._width if number >= 0 else len(self._rows) + number * self._width
        return self._rows[start : start + self._width]
