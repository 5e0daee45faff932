"""Windowed bolts: components that process the tuples of one window at a time.

The logic of windows is in ``spans``, ``event_time`` and ``arrival_time``. This module handles clocks, tuples and acks,
and defines the public class.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Self

from tupletree._log import event
from tupletree._signatures import check_returned
from tupletree.collector import BoltCollector
from tupletree.component import Bolt, TopologyContext, Yielded
from tupletree.errors import TopologyError, UsageError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.tuples import Tuple

from .arrival_time import ArrivalTime
from .collector import WindowCollector
from .event_time import Watermarks
from .lengths import MICROSECONDS, Count, Duration, Length, length_of
from .settings import Extractor, WindowSettings
from .spans import Place, Span, Spans
from .window import Window

log = logging.getLogger(__name__)

LATE_FIELD = "late_tuple"


class WindowedBolt(Bolt):
    """A bolt whose ``execute_window`` is called for each window, with the tuples of that window.

        class Totals(WindowedBolt):
            outputs = ["total"]

            def execute_window(self, window):
                self.collector.emit([sum(tup["amount"] for tup in window.tuples)])

        totals = Totals().with_window(timedelta(minutes=1), timedelta(seconds=10)).with_timestamp_field("at")
        builder.set_bolt("totals", totals, 4).fields_grouping("sales", ["shop"])

    Each task has its own windows, over the tuples that it receives.

    **Window ends.** In processing time, a slide that is a time ends a window at every tick of that interval. A slide
    of n tuples (the default is 1) ends a window at every n-th tuple. In event time (``with_timestamp_field`` or
    ``with_timestamp_extractor``), tuples are ordered by their timestamps, and a window is evaluated when the watermark
    passes its end; ``spans`` and ``event_time`` define the details. Windows without tuples are skipped. If the
    length is a number of tuples and the slide is a time, windows without new tuples are skipped too.

    **At-least-once processing.** Emitted tuples are anchored to all tuples of the window. A tuple is acked after its
    last window. Until then it is pending at its spout, and is replayed if the worker dies. So length plus slide must be
    less than ``topology.message.timeout.secs``, and at most ``topology.max.spout.pending`` tuples; a lag adds to both.
    A replayed tuple counts as a new tuple: it can be in the same window as the original.

    An exception from ``execute_window`` ends the worker.
    """

    _remedy = ""  # a window is of many tuples
    holds_tuples = True

    needs_message_ids = False

    _is_open = False
    _spans: Spans[Tuple]
    _emission: WindowCollector | None = None
    _settings: WindowSettings = WindowSettings()

    def execute_window(self, window: Window) -> Yielded:
        """Process the tuples of one window. Rows emitted or yielded are anchored to all tuples of the window."""
        raise NotImplementedError

    def with_window(self, length: int | timedelta | Length, slide: int | timedelta | Length = 1) -> Self:
        """Set the length and slide of the windows: each a number of tuples (int) or a time (timedelta).

        The default slide is one tuple: a window for every tuple. ``Count`` and ``Duration`` are accepted too.

        Raises:
            UsageError: length or slide is none of these, or is zero.
        """
        return self._set(length=self._length("length", length), slide=self._length("slide", slide))

    def with_tumbling_window(self, length: int | timedelta | Length) -> Self:
        """Set tumbling windows of a length: they do not overlap, and each tuple is in exactly one window.

        Raises:
            UsageError: as ``with_window``.
        """
        return self.with_window(length, length)

    def with_timestamp_field(self, field: str) -> Self:
        """Use event time, with timestamps from a field: in seconds, or as datetimes with a time zone.

        A tuple without a valid timestamp is failed, and the error is reported.
        """
        if not isinstance(field, str) or not field:
            raise UsageError(f"{self._name}: a timestamp field must be the name of a field, not {field!r}")
        return self._set(timestamp_field=field)

    def with_timestamp_extractor(self, extractor: Extractor) -> Self:
        """Use event time, with timestamps from ``extractor(tup)``: in seconds, or as datetimes with a time zone.

        If the extractor raises or returns anything else, the tuple is failed and the error is reported.
        """
        if not callable(extractor):
            raise UsageError(f"{self._name}: a timestamp extractor must be a function of a tuple, not {extractor!r}")
        return self._set(extractor=extractor)

    def with_lag(self, lag: timedelta | Duration) -> Self:
        """Set the maximum lag of a tuple's timestamp behind the latest timestamp of its stream (default 0)."""
        return self._set(lag=self._duration("lag", lag))

    def with_watermark_interval(self, interval: timedelta | Duration) -> Self:
        """Set the interval at which the watermark is updated (default 1 second)."""
        duration = self._duration("watermark interval", interval)
        if duration == Duration(0):
            raise UsageError(f"{self._name}: a watermark interval must be more than zero")
        return self._set(watermark_interval=duration)

    def with_late_tuple_stream(self, stream: str) -> Self:
        """Emit late tuples on a stream of this bolt, with a single field ``late_tuple`` that holds a dict of the tuple.

        Do not declare the stream. An emitted late tuple is anchored to the original, which is then acked. Without this
        stream late tuples are only counted, logged and acked.
        """
        if not isinstance(stream, str) or not stream:
            raise UsageError(f"{self._name}: a late tuple stream must be the id of a stream, not {stream!r}")
        return self._set(late_stream=stream)

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields that every input of this bolt must have; checked when the topology is built."""
        fields = (self._settings.timestamp_field, self._settings.message_id_field)
        return tuple(field for field in fields if field is not None)

    def declare_output_fields(self, declarer: Any) -> None:
        self._settings.check(declarer.component_id, self.needs_message_ids)
        super().declare_output_fields(declarer)
        if self._settings.late_stream is not None:
            declarer.declare_stream(self._settings.late_stream, [LATE_FIELD])

    def component_configuration(self) -> Mapping[str, Any]:
        self._settings.check(self._name, self.needs_message_ids)
        tick_s = self._settings.tick_s
        return {} if tick_s is None else {"topology.tick.tuple.freq.secs": tick_s}

    @property
    def collector(self) -> BoltCollector:
        """The collector, which anchors emitted tuples to the tuples of the window."""
        if self._emission is None:
            raise AttributeError(f"{self._name} has no collector before it runs")
        return self._emission

    @collector.setter
    def collector(self, collector: BoltCollector) -> None:
        # A user's prepare can set self.collector to the plain collector that it was given: emits stay anchored.
        if not isinstance(collector, WindowCollector):
            self._emission = WindowCollector(collector)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self._open()

    def _open(self) -> None:
        """Initialize, in ``prepare`` or at the first tuple: a subclass need not call this class's ``prepare``."""
        context, settings = self.context, self._settings
        settings.check_limits(context.component_id, context.conf, self._takes_checkpoints, self._acks_wait_s)
        self._is_open = True
        self._began_unix_s = time.time()
        self._late = self._late_logged = 0
        self._arrival = ArrivalTime(
            self._clock_us(), settings.slide.us if isinstance(settings.slide, Duration) else None
        )
        self._begin(Place(), [])
        if settings.is_in_event_time:
            text = "Tuples that came too late for their windows."
            context.register_own("windows_late_tuples", "counter", text, lambda: self._late)

    def _begin(self, place: Place, kept: list[tuple[int, Tuple]]) -> None:
        """Begin windows, or continue from ``place`` with the kept tuples and their times."""
        streams = [source for source in self.context.sources if source[1] != CHECKPOINT_STREAM]
        lag = self._settings.lag
        self._watermarks = Watermarks(streams, 0 if lag is None else lag.us, place.end_us)
        self._spans = Spans(*self._settings.windows)
        self._spans.restore(place, kept)

    @property
    def _takes_checkpoints(self) -> bool:
        return any(stream == CHECKPOINT_STREAM for _, stream in self.context.sources)

    @property
    def _acks_wait_s(self) -> float:
        """The longest delay of an ack."""
        return 0.0

    def execute(self, tup: Tuple) -> None:
        self.execute_batch([tup])

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if not self._is_open:
            self._open()
        if tuples[0].is_tick:
            self._tick(tuples[0][0])
        elif self._settings.is_in_event_time:
            self._add_by_timestamp(tuples)
        else:
            self._add_by_arrival(tuples)
        self._evaluate()

    def _clock_us(self) -> int:
        return round(self.context.clock() * MICROSECONDS)

    def _tick(self, interval_s: float) -> None:
        if not self._settings.is_in_event_time:
            self._spans.advance(self._arrival.at_tick(self._clock_us(), round(interval_s * MICROSECONDS)))
            return
        watermark_us = self._watermarks.announce()
        if watermark_us is not None:
            self._spans.advance(watermark_us)
        if self._late > self._late_logged and self._settings.late_stream is None:
            tuples, self._late_logged = self._late - self._late_logged, self._late
            context = self.context
            event(log, "tuples.late", component=context.component_id, task=context.task_id, tuples=tuples)

    def _add_by_arrival(self, tuples: list[Tuple]) -> None:
        now_us = self._arrival.at(self._clock_us())
        self._spans.advance(now_us)
        for tup in tuples:
            self._spans.add(tup, now_us)

    def _add_by_timestamp(self, tuples: list[Tuple]) -> None:
        stream = (tuples[0].source_component, tuples[0].source_stream)
        for tup in tuples:
            at_us = self._timestamp_us(tup)
            if at_us is None:
                continue
            self._watermarks.came(stream, at_us)
            if self._watermarks.is_late(at_us):
                self._on_late(tup)
            else:
                self._spans.add(tup, at_us)

    def _timestamp_us(self, tup: Tuple) -> int | None:
        """Return the timestamp of a tuple. A tuple without a valid timestamp is failed, and None is returned."""
        try:
            return self._settings.timestamp_us(tup)
        except ValueError as error:
            field = self._settings.timestamp_field
            self._reject(tup, "the timestamp" if field is None else f"timestamp field '{field}'", field or "", error)
            return None

    def _reject(self, tup: Tuple, what: str, field: str, error: ValueError) -> None:
        """Fail a tuple and report the error."""
        source = f"'{tup.source_component}', stream '{tup.source_stream}'"
        fault = f"bolt '{self.context.component_id}': {what} of a tuple of {source} is {error}"
        reason = TopologyError(fault, component=self.context.component_id, field=field)
        self._plain.report_error(reason)
        self._plain.fail(tup, reason)

    def _on_late(self, tup: Tuple) -> None:
        self._late += 1
        if self._settings.late_stream is not None:
            self._plain.emit([dict(zip(tup.fields, tup.values, strict=True))], tup, self._settings.late_stream)
        self._plain.ack(tup)

    def _evaluate(self) -> None:
        """Evaluate every window that is due, then ack the tuples that have been in their last window."""
        while (span := self._spans.next_due()) is not None:
            self._evaluate_one(span)
        evicted = self._spans.evict()
        if evicted:
            self._ack_evicted(evicted)

    def _ack_evicted(self, evicted: list[Tuple]) -> None:
        self._plain.ack_many(evicted)

    def _evaluate_one(self, span: Span[Tuple]) -> None:
        emission = self._emission
        assert emission is not None
        emission.window = span.items
        try:
            execute: Callable[[Window], object] = self.execute_window
            returned = execute(self._window(span))
            if returned is not None:
                check_returned(
                    self.context.component_id, self, "execute_window", returned, emit_many=self.collector.emit_many
                )
        finally:
            emission.window = ()

    def _window(self, span: Span[Tuple]) -> Window:
        began_s = 0.0 if self._settings.is_in_event_time else self._began_unix_s
        start = None if span.start_us is None else began_s + span.start_us / MICROSECONDS
        return Window(span.items, span.new, span.expired, start, began_s + span.end_us / MICROSECONDS)

    @property
    def _plain(self) -> BoltCollector:
        """The underlying collector, without automatic anchors."""
        assert self._emission is not None
        return self._emission.plain

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _length(self, name: str, value: object) -> Length:
        length = length_of(value)
        if length is None:
            raise UsageError(f"{self._name}: a window's {name} must be a tuple count or a timedelta, not {value!r}")
        if length in (Count(0), Duration(0)):
            raise UsageError(f"{self._name}: a window's {name} must be more than zero, not {length}")
        return length

    def _duration(self, name: str, value: object) -> Duration:
        duration = length_of(value)
        if not isinstance(duration, Duration):
            raise UsageError(f"{self._name}: a {name} must be a timedelta, not {value!r}")
        return duration

    def _set(self, **settings: Any) -> Self:
        self._settings = dataclasses.replace(self._settings, **settings)
        return self
