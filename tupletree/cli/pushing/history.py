"""Counters over time: their differences for statsd, and the times at which they began for OTLP.

A counter begins at 0 with its process, and some restart at 0 within a process: then a value is below the last one.
Both histories keep one value per series. What was not read for ``FORGOTTEN_S`` is forgotten; until then, a process
that does not answer, or that a new leader does not list yet, keeps its values.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .readings import Distribution, Labels, Reading, Series

FORGOTTEN_S: Final = 600.0
START_ERROR_S: Final = 2.0
"""A process may have begun this much later than it shows: Linux counts from a time of boot in whole seconds."""

_Process = tuple[str, str]
_Key = tuple[str, Labels]


class Difference(NamedTuple):
    """The growth of a counter, or of a histogram's count and sum, since what was sent last."""

    series: Series
    amount: float
    sum: float = 0.0  # of a histogram, whose count is ``amount``


class _Total(NamedTuple):
    amount: float
    sum: float = 0.0


class _Sent(NamedTuple):
    at_s: float
    totals: dict[_Key, _Total]


_NOTHING: Final = _Total(0.0)


class Differences:
    """The counters as they were when they were sent last.

    The first reading of a process counts from 0 if the process is younger than this history, so that nothing of it
    can have been sent. Of an older process it is where counting begins. ``began_s``: when the history begins.
    """

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._sent: dict[_Process, _Sent] = {}

    def of(self, reading: Reading) -> Iterator[Difference]:
        """Yield what has grown. Until ``commit``, the same again with each further reading."""
        sent = self._sent.get(_process(reading))
        if sent is None and not reading.started_s + START_ERROR_S >= max(self._began_s, reading.at_s - FORGOTTEN_S):
            return
        totals = {} if sent is None else sent.totals
        for series in reading.series:
            if series.kind == "gauge":
                continue
            now, last = _total(series), totals.get(series.key, _NOTHING)
            if now.amount < last.amount:
                last = _NOTHING
            if now.amount > last.amount:
                yield Difference(series, now.amount - last.amount, now.sum - last.sum)

    def commit(self, readings: Iterable[Reading], now_s: float) -> None:
        """Record that the differences of these readings were sent."""
        for reading in readings:
            totals = {series.key: _total(series) for series in reading.series if series.kind != "gauge"}
            self._sent[_process(reading)] = _Sent(reading.at_s, totals)
        self._sent = {key: sent for key, sent in self._sent.items() if now_s - sent.at_s < FORGOTTEN_S}


class _Begun(NamedTuple):
    started_s: float
    amount: float


class _Run(NamedTuple):
    at_s: float
    begun: dict[_Key, _Begun]


class Starts:
    """When the counters of each process began: with the process, or between two readings."""

    def __init__(self) -> None:
        self._runs: dict[_Process, _Run] = {}

    def of(self, reading: Reading) -> dict[_Key, float]:
        """Return when each counter and histogram began, in Unix time, and remember the reading.

        The time of the reading, where nothing else is known.
        """
        run = self._runs.get(_process(reading))
        before = {} if run is None else run.begun
        first_s = reading.started_s if reading.started_s <= reading.at_s else reading.at_s
        begun: dict[_Key, _Begun] = {}
        for series in reading.series:
            if series.kind == "gauge":
                continue
            amount, last = _total(series).amount, before.get(series.key)
            if last is None:
                started_s = first_s
            elif amount < last.amount and run is not None:
                started_s = run.at_s
            else:
                started_s = last.started_s
            begun[series.key] = _Begun(started_s, amount)
        self._runs[_process(reading)] = _Run(reading.at_s, begun)
        return {key: one.started_s for key, one in begun.items()}

    def forget(self, now_s: float) -> None:
        """Forget the processes that were not read for long."""
        self._runs = {key: run for key, run in self._runs.items() if now_s - run.at_s < FORGOTTEN_S}


def _process(reading: Reading) -> _Process:
    return reading.target.role, reading.target.id


def _total(series: Series) -> _Total:
    value = series.value
    return _Total(float(value.count), value.sum) if isinstance(value, Distribution) else _Total(value)
