"""IntervalJoin: tuples of two streams with equal keys and near event times. See docs/guides/joins.md.

The rules are in ``interval_rules`` and ``timeline``; this module calls the user's methods.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from tupletree.component import Yielded
from tupletree.joins.bolt import Join, watermark_of
from tupletree.joins.interval_rules import IntervalBuffer, IntervalRules
from tupletree.joins.settings import Side, check_kind, interval_ms, refuse
from tupletree.joins.timeline import MAX_CHUNK
from tupletree.keyed.access import KeyState, Timers
from tupletree.state.contract import KeyValueState
from tupletree.tuples import Tuple

REPORTED: Final = {"inner": (False, False), "left": (True, False), "outer": (True, True)}
"""For each kind of join: whether tuples of the left and of the right side are joined with None if they are alone."""


class IntervalJoin(Join):
    """A join of two streams: of tuples with equal keys whose event times lie in an interval.

        class AdsSeen(IntervalJoin):
            key, event_time, max_lag = "user", "at", timedelta(seconds=10)
            left, right = "views", "clicks"
            before, after = timedelta(0), timedelta(minutes=5)      # a click up to five minutes after the view
            kind = "left"
            outputs = ["user", "ad", "clicked"]

            def join(self, view, click):
                yield [view["user"], view["ad"], click is not None]

        ads = builder.set_bolt("ads", AdsSeen(), 4)
        ads.fields_grouping("views", "user").fields_grouping("clicks", "user")

    A KeyedProcess with exactly these two inputs: key, event time, watermark, late tuples and guarantees are those of
    KeyedProcess. Tuples of both sides are in the state of their key. ``join`` is called for each pair of a left and a
    right tuple whose time is from ``left - before`` to ``left + after``, both inclusive, when the second of them
    arrives: once for each pair, in whatever order tuples arrive. A tuple that is late is joined with nothing.

    With ``kind = "left"``, ``join(left, None)`` is called for a left tuple without a partner, when the watermark has
    passed the last time at which a partner could come; with ``kind = "outer"``, ``join(None, right)`` likewise. These
    rows are those of a timer: not guaranteed without aligned checkpoints, as in KeyedProcess.

    A tuple is removed when no partner can come any more, or a little later: at most 128 tuples of one side of a key
    stay longer, until the newest of them is due. A key with many tuples has them in chunks of at most 128. A checkpoint
    writes the newest chunk of each side, chunks that have changed, and some 13 bytes for each 64 tuples of the key.

    Not guaranteed: the order of rows; and that keys are held together, if both inputs have custom or direct groupings,
    which are not checked. FailedException from ``join`` fails the arriving tuple, which is then not kept;
    when a timer calls ``join``, any exception ends the worker.

    Attributes:
        left, right: the source of each side: a component, (component, stream), or a list of such pairs.
        before, after: how much earlier and how much later than the left tuple a right one can be. Both are required;
            one of them can be negative.
        kind: "inner", "left" or "outer".
        key, event_time, max_lag, idle_timeout, late_stream: as in KeyedProcess. ``event_time`` is required. Without
            ``idle_timeout``, a side that sends nothing holds the watermark back.
    """

    left: Side = ""
    right: Side = ""
    before: dt.timedelta | None = None
    after: dt.timedelta | None = None

    _max_chunk = MAX_CHUNK

    def join(self, left: Any, right: Any) -> Yielded:
        """Process one pair: what ``keep`` has returned for each tuple, or None. Rows may be emitted or yielded."""
        raise NotImplementedError

    @property
    def sides(self) -> Mapping[str, Any]:
        return {"left": self.left, "right": self.right}

    def _check_settings(self, component: str) -> None:
        super()._check_settings(component)
        check_kind(component, self.kind, REPORTED)
        interval_ms(component, self.before, self.after)
        if self.event_time is None:
            refuse(component, "event_time", "event_time is missing: set it to the name of the field with the time")
        if self.ttl is not None:
            refuse(component, "ttl", "ttl is not for an IntervalJoin, which removes tuples by event time")

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        before_ms, after_ms = interval_ms(self.context.component_id, self.before, self.after)
        self._rules = IntervalRules(before_ms, after_ms, REPORTED[self.kind], self._max_chunk)

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        side = 0 if self._is_first(tup) else 1
        time, value, watermark = self._time_of(tup), self.keep(tup), watermark_of(timers)
        buffer = IntervalBuffer(self._rules, state.value, self.state, state.key)
        pairs = buffer.pairs(side, time, value, watermark)
        for pair in pairs:
            self._emit_joined(self.join(*pair))
        buffer.add(side, time, value, bool(pairs), watermark)
        if buffer.has_changed:
            self._save(state, timers, buffer)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> None:
        buffer = IntervalBuffer(self._rules, state.value, self.state, key)
        for pair in buffer.expire(watermark_of(timers)):
            self._emit_joined(self.join(*pair))
        self._save(state, timers, buffer)
