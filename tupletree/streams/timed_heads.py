"""Components that run windows and joins of a program: the bolts of ``tupletree.keyed`` and ``tupletree.joins``.

Elements reach them as one value each: in the fields ``key``, ``time`` and ``value``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tupletree._wire.value_types import value
from tupletree.joins import IntervalJoin, TableJoin
from tupletree.keyed import KeyedProcess, KeyedWindow, WindowBounds
from tupletree.keyed.progress import entry_of
from tupletree.keyed.settings import MAX_TIME_MS
from tupletree.keyed.watermark import ABSENT, ALIVE, BEFORE_ALL
from tupletree.streams.code import Code
from tupletree.streams.edges import Edge
from tupletree.streams.elements import second
from tupletree.streams.heads import basic_emits, declare, follower
from tupletree.streams.history import ParquetHistory, forget_share
from tupletree.streams.layout import KEY, TIME, VALUE, Layout
from tupletree.streams.steps import Chain, Fold
from tupletree.streams.watermarks import ENDING, WATERMARKS
from tupletree.tuples import Tuple, record_fields

V = TypeVar("V")


@value
class Windowed(NamedTuple, Generic[V]):
    """The result of a window.

    Attributes:
        start, end: the window contains the times from ``start`` up to but not including ``end``, in milliseconds. Of a
            CountWindow: the numbers of elements of the key, from 0.
        value: the aggregate of the window's elements.
        timing: "on_time"; "early" before the window was over; "late" if it is emitted again after a late element.
    """

    start: int
    end: int
    value: V
    timing: str = "on_time"


class Timed(KeyedProcess):
    """A KeyedProcess that hears of the progress of its senders, sends its own, and hands its results on."""

    key = KEY
    chain: Chain
    late: Layout | None = None
    _is_alive = False  # a sender has said so since progress was sent last
    _was_alone = False  # all senders were absent then, and no result was still to come
    _behind_ms = 0  # results may have times so far before the watermark
    _late_remedy = "raise max_lag of event_time, or take the stream .late of the result"

    @property
    def control_streams(self) -> frozenset[str]:
        """Streams whose tuples are no elements: they come to all tasks, without a key."""
        return frozenset([WATERMARKS])

    def declare_output_fields(self, declarer: Any) -> None:
        super().declare_output_fields(declarer)
        declare(self.chain, declarer)

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        code = Code(basic_emits(self.chain), emit=self.collector.emit)
        self._follow = follower(self.chain, code, self.context.component_id)
        if any(stream == WATERMARKS for _, stream in self.context.sources):
            self.execute = self._execute_timed  # type: ignore[method-assign]
            self._follows_tuples = False  # elements of two streams of one sender overtake each other
        if self.chain.sends_watermarks:
            self.tick = self._tick_timed  # type: ignore[method-assign]

    def _late_row(self, tup: Tuple) -> Sequence[Any]:
        assert self.late is not None
        value, record = tup[VALUE], self.late.record
        return [tup[KEY], *([value] if record is None else (getattr(value, name) for name in record_fields(record)))]

    def _execute_timed(self, tup: Tuple) -> None:
        if tup.source_stream == WATERMARKS:
            self._is_alive |= tup[TIME] == ALIVE
            self.advance(tup.source_task, tup[TIME])
            if self.chain.sends_watermarks and (self._timers.watermark or 0) > ENDING:  # no element comes any more
                self._send_progress()
        else:
            type(self).execute(self, tup)

    def _tick_timed(self) -> None:
        type(self).tick(self)
        self._send_progress()

    def _send_progress(self) -> None:
        progress = self._progress
        assert progress is not None
        time, was_alone = self._timers.watermark, self._was_alone
        is_alone = self._was_alone = progress.watermark.is_alone and not progress.events
        if time is not None:
            self.collector.emit([time - self._behind_ms], stream=WATERMARKS)
        elif was_alone and not is_alone:
            self.collector.emit([BEFORE_ALL], stream=WATERMARKS)
        if is_alone or self._is_alive:
            self._is_alive = False
            self.collector.emit([ABSENT if is_alone else ALIVE], stream=WATERMARKS)


class WindowHead(Timed, KeyedWindow):
    """Windows per key, of which each result is handed on as a Windowed. Without ``merge``.

    Attributes:
        end_of_input: to be called when no element comes any more; None if windows hear of that by event time.
    """

    end_of_input: Callable[[], None] | None = None

    def __init__(self, fold: Fold, settings: Mapping[str, Any], chain: Chain) -> None:
        """``settings``: attributes of a KeyedWindow."""
        vars(self).update(settings)
        self.fold = fold
        self.chain = chain

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        if self.event_time is None:
            self.end_of_input = self._end

    def _end(self) -> None:
        """Emit all windows, as if the clock had run on."""
        if self._progress is not None:
            self._fire_processing(self._progress, MAX_TIME_MS)

    def initial(self) -> Any:
        if self.fold.initial is not None:
            return self.fold.initial()
        return 0 if self.fold.is_sum else []  # a list of the value, if there is one

    def add(self, value: Any, tup: Tuple) -> Any:
        fold = self.fold
        if fold.is_count:
            return value + 1
        if fold.add is None:
            return value + tup[VALUE]
        if fold.initial is not None:
            return fold.add(value, tup[VALUE])
        return [fold.add(value[0], tup[VALUE])] if value else [tup[VALUE]]

    def on_window(self, key: Any, window: WindowBounds, value: Any) -> None:
        is_wrapped = self.fold.initial is None and not self.fold.is_sum
        result = value[0] if is_wrapped else value
        self._follow(key, window.end - 1, Windowed(window.start, window.end, result, window.timing))


class MergingWindowHead(WindowHead):
    """Windows per key whose partial values can be merged."""

    def merge(self, first: Any, second: Any) -> Any:
        fold = self.fold
        if fold.is_sum:
            return first + second
        assert fold.merge is not None
        if fold.initial is not None:
            return fold.merge(first, second)
        return [fold.merge(first[0], second[0])] if first and second else first or second


class IntervalHead(Timed, IntervalJoin):
    """A join of two streams, of which each result is handed on."""

    event_time = TIME

    def __init__(
        self, function: Callable[[Any, Any], Any], settings: Mapping[str, Any], edges: Sequence[Edge], chain: Chain
    ) -> None:
        """``settings``: attributes of an IntervalJoin, except its sides."""
        vars(self).update(settings)
        self.left, self.right = sides_of(edges)
        self.function = function
        self.chain = chain

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self._behind_ms = self._rules.longest_wait_ms

    def keep(self, tup: Tuple) -> Any:
        return [tup[TIME], tup[VALUE]]

    def join(self, left: Any, right: Any) -> None:
        time = max(side[0] for side in (left, right) if side is not None)
        result = self.function(None if left is None else left[1], None if right is None else right[1])
        self._follow(self._access.key, time, result)


class TableHead(Timed, TableJoin):
    """A join of a stream with a table, of which each result is handed on. None in the table removes the key's row."""

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        settings: Mapping[str, Any],
        edges: Sequence[Edge],
        chain: Chain,
        history: ParquetHistory | None,
    ) -> None:
        """``settings``: attributes of a TableJoin, except its sides. ``history``: the rows that it begins with."""
        vars(self).update(settings)
        self.history = history
        self.stream, self.table = sides_of(edges)
        self.has_time = any(edge.layout.has_time for edge in edges if edge.side == 0)
        self.function = function
        self.chain = chain

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        if self.history is not None:
            self.history.load(state, self.context, second, lambda key, row: (entry_of(key), [None, row]))

    def post_commit(self, txid: int, state: Any) -> None:
        if self.history is not None:
            forget_share(self.history, self.context)

    def keep(self, tup: Tuple) -> Any:
        return [tup[TIME] if self.has_time and TIME in tup else None, tup[VALUE]]

    def deleted(self, tup: Tuple) -> bool:
        return tup[VALUE] is None

    def join(self, left: Any, row: Any) -> None:
        result = self.function(left[1], None if row is None else row[1])
        self._follow(self._access.key, left[0], result)


def with_late(bolt: KeyedProcess, stream: str, layout: Layout) -> KeyedProcess:
    """Return a copy of a bolt that emits its late tuples on a stream, as elements in a layout."""
    bolt = copy.copy(bolt)
    bolt.late_stream = stream
    bolt._late_parts = layout.fields
    if isinstance(bolt, Timed):
        bolt.late = layout
    return bolt


def sides_of(edges: Sequence[Edge]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the streams of both inputs of a join."""
    first, second = ([(one.component, one.stream) for one in edges if one.side == side] for side in (0, 1))
    return first, second
